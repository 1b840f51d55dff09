"""Brown clusters of sentences drawn from a Brown model: the mutual information of adjacent clusters.

The package brown-clustering has the exact algorithm too, and finds the same; it is not here, for it compiles its loops
anew in every process, which takes twenty seconds.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

import dspectral

from .race import Contender, Found, Race, Settings


def make(folder: Path, s: Settings) -> str:
    """Write sentences, each a line."""
    sample = dspectral.datasets.brown_model_sentences(
        s["sentences"], n_classes=s["classes"], n_words=s["words"], seed=s["seed"]
    )
    lines = [" ".join(sentence) for sentence in sample.sentences]
    (folder / "sentences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokens = sum(map(len, sample.sentences))
    return f"{tokens:,} tokens of at most {s['words']:,} words in {s['classes']} classes"


def sentences(folder: Path) -> list[list[str]]:
    """Return the words of each sentence."""
    return [line.split() for line in (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()]


def word_class(word: str, n_classes: int) -> int:
    """Return the class of a word in the model, which its name says."""
    return int(word.removeprefix("w")) % n_classes


def adjacent(lines: list[list[str]]) -> tuple[list[str], Any]:
    """Return the words, the most frequent first, and how often one directly follows another."""
    tokens = np.array([word for line in lines for word in line])
    words, ids, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.argsort(order)[ids]
    ends = np.cumsum([len(line) for line in lines])[:-1] - 1
    follows = np.ones(max(0, len(rank) - 1), dtype=bool)
    follows[ends] = False  # the last word of a line and the first of the next
    pairs = (rank[:-1][follows], rank[1:][follows])
    table = sparse.csr_array(sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=(len(words),) * 2))
    return words[order].tolist(), table


def accuracy(folder: Path, s: Settings, found: Found) -> dict[str, float]:
    """Return the mutual information of adjacent clusters, and how well the clusters are the model's classes."""
    labels = dict(zip(found["words"].tolist(), found["labels"].tolist(), strict=True))
    words, counts = adjacent(sentences(folder))
    clusters = [labels[word] for word in words]
    classes = [word_class(word, s["classes"]) for word in words]
    return {
        "average_mutual_information_bits": dspectral.metrics.average_mutual_information(counts, clusters),
        "v_measure": dspectral.metrics.v_measure(classes, clusters),
    }


def ours(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Read the text, write the corpus to disk, and cluster its words."""
    place = str(Path(tempfile.mkdtemp(dir=folder), "corpus.zarr"))
    model = library.SpectralBrownClustering(s["classes"])
    return lambda: model.fit(library.build_corpus(str(folder / "sentences.txt"), place))


def our_clusters(model: Any) -> Found:
    """Return words and clusters."""
    return {"words": np.array(model.words_), "labels": np.asarray(model.labels_)}


def exact(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Read the text, and merge the pair that loses least, word by word."""

    def run() -> Found:
        words, counts = adjacent(sentences(folder))
        return {"words": np.array(words), "labels": library.agglomerated(counts, s["classes"])}

    return run


RACE = Race(
    "Cluster words by what stands beside them, from a file of text.",
    {
        "toy": {"sentences": 200, "classes": 4, "words": 40},
        "small": {"sentences": 5_000, "classes": 20, "words": 500},
        "middle": {"sentences": 20_000, "classes": 50, "words": 2_000},
        "full": {"sentences": 350_000, "classes": 200, "words": 20_000},
    },
    make,
    {
        "dspectral": Contender("dspectral", ours, our_clusters),
        "exact agglomeration, in NumPy": Contender(f"{__package__}.agglomeration", exact),
    },
    accuracy,
)
