"""Hidden Markov models of sentences drawn from one that is known: how likely they find other sentences of it."""

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import dspectral

from .race import Contender, Found, Race, Settings

MOST_SCORED = 2_000
"""Sentences that the models are scored on, which none has seen."""
LEAST = 1e-9
"""Probability of a word that a state has never seen."""


def make(folder: Path, s: Settings) -> str:
    """Write sentences as text and as numbers, further ones of the same model, and the model."""
    learned, n = s["sentences"], s["sentences"] + MOST_SCORED
    stream = dspectral.datasets.anchor_sentences(
        n, n_states=s["states"], n_types=s["words"], block_sentences=n, seed=s["seed"]
    )
    (ids, offsets), model = stream.sentences.read(stream.sentences.items[0]), stream.model
    bounds = pairwise(offsets[: learned + 1])
    lines = [" ".join(f"w{i}" for i in ids[start:stop]) for start, stop in bounds]
    (folder / "sentences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    end = offsets[learned]
    np.savez(folder / "ids.npz", ids=ids[:end], lengths=np.diff(offsets[: learned + 1]))
    np.savez(folder / "others.npz", ids=ids[end:], lengths=np.diff(offsets[learned:]))
    going = model.transition / model.transition.sum(axis=1, keepdims=True)  # no model knows ends
    np.savez(folder / "truth.npz", start=model.initial, transition=going, emission=model.emission.T)
    return f"{end:,} tokens, {s['words']:,} words, {s['states']} states, {s['passes']} passes of EM"


def accuracy(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return the mean log-likelihood of a token of further sentences, and how far it is below the true model's."""
    with np.load(folder / "others.npz") as others, np.load(folder / "truth.npz") as truth:
        best, own = (log_likelihood(model, others["ids"], others["lengths"]) for model in (truth, found))
    return {"log_likelihood": own, "below_true_model": best - own}


def log_likelihood(model: Any, ids: np.ndarray, lengths: np.ndarray) -> float:
    """Return the mean log-likelihood of a token, all sentences taking each step together."""
    emission = np.maximum(model["emission"], LEAST).T
    starts, total = np.cumsum(lengths) - lengths, 0.0
    state = np.tile(model["start"], (len(lengths), 1))
    for step in range(int(lengths.max())):
        going = lengths > step
        state, starts, lengths = state[going], starts[going], lengths[going]
        joint = (state if step == 0 else state @ model["transition"]) * emission[ids[starts + step]]
        likely = joint.sum(axis=1)
        total += float(np.sum(np.log(likely)))
        state = joint / likely[:, None]
    return total / len(ids)


def _corpus(library: ModuleType, folder: Path) -> Callable[[], Any]:
    place = str(Path(tempfile.mkdtemp(dir=folder), "corpus.zarr"))
    return lambda: library.build_corpus(str(folder / "sentences.txt"), place)


def ours(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Read the text, write the corpus to disk, and run EM on it from a random start."""
    model = library.EMHMM(s["states"], n_iter=s["passes"], recipe=library.EMRecipe(tol=0.0))
    corpus = _corpus(library, folder)
    return lambda: model.fit(corpus())


def anchors(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Read the text, write the corpus to disk, find the states from counts, and mend them by three passes of EM."""
    model, corpus = (
        library.AnchorHMM(s["states"], spelling=0.0, min_count=1, n_em_iter=3),
        _corpus(library, folder),
    )
    return lambda: model.fit(corpus())


def our_model(model: Any) -> Found:
    """Return the parameters, words by their numbers."""
    numbers = np.array([int(word.removeprefix("w")) if word != "<?>" else 0 for word in model.words_])
    emission = np.zeros((len(model.startprob_), numbers.max() + 1))
    emission[:, numbers] = model.emissionprob_
    return {"start": model.startprob_, "transition": model.transmat_, "emission": emission}


def hmmlearn(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Run as many passes of EM from a random start, on numbers in memory, by its faster recursions."""
    with np.load(folder / "ids.npz") as sentences:
        ids, lengths = sentences["ids"].reshape(-1, 1), sentences["lengths"]
    settings = {"n_iter": s["passes"], "tol": -np.inf, "implementation": "scaling", "random_state": 0}
    model = library.CategoricalHMM(s["states"], n_features=s["words"] + 1, **settings)
    return lambda: model.fit(ids, lengths)


def their_model(model: Any) -> Found:
    """Return the parameters."""
    return {"start": model.startprob_, "transition": model.transmat_, "emission": model.emissionprob_}


RACE = Race(
    "Learn a hidden Markov model of text, by as many passes of EM from one random start each.",
    {
        "toy": {"sentences": 300, "states": 3, "words": 40, "passes": 3},
        "small": {"sentences": 3_000, "states": 6, "words": 500, "passes": 10},
        "middle": {"sentences": 10_000, "states": 8, "words": 2_000, "passes": 20},
        "full": {"sentences": 300_000, "states": 12, "words": 20_000, "passes": 100},
    },
    make,
    {
        "dspectral EMHMM": Contender("dspectral", ours, our_model),
        "dspectral AnchorHMM": Contender("dspectral", anchors, our_model),
        "hmmlearn CategoricalHMM": Contender("hmmlearn.hmm", hmmlearn, their_model),
    },
    accuracy,
)
