"""Find word classes in text without tags, and hold them against tags that somebody gave.

The words of the files are read together, tags are looked at to score alone. Methods: `em` is the hidden Markov model
by EM from random starts; `brown` clusters by adjacent words, with exchange sweeps; `anchor` the anchor HMM, and
`anchor+spelling` the same with what words look like; `anchor-plain` is nearest to the paper's own setting. Each runs
with so many seeds. Metrics: `many_to_one`, `one_to_one` and `v_measure`, all between 0 and 1, and the `cpu_seconds`
of a fit. The anchor of each state is noted with the tag that the state stands for.
"""

import argparse

from ._form import form

SPELLING = 0.3
METHODS = ("em", "brown", "anchor", "anchor+spelling", "anchor-plain")


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("pos_induction", __doc__)
    add = parser.add_argument
    add("--corpus", nargs="+", required=True, metavar="CONLL", help="a token a line; also .gz, URLs")
    add("--word-column", type=form.positive, default=1, metavar="N", help="of the words, from 1 on")
    add("--tag-column", type=form.positive, default=2, metavar="N", help="of the tags, from 1 on")
    add("--n-states", type=form.positive, default=12, metavar="M", help="states or clusters")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS[:4]), help="to compare")
    add("--seeds", type=form.positive, default=1, metavar="N", help="fits of each method")
    add("--em-iterations", type=form.positive, default=100, metavar="N", help="most passes of EM")
    add("--spelling", type=float, default=SPELLING, help="weight of what words look like")
    add("--min-count", type=form.positive, default=4, metavar="C", help="of anchor: rarer words are merged")
    add("--name", help="of the data in the report (default: the first file's folder)")
    return parser


form.check_options(__name__, options)

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import v_measure_score

import dspectral
from dspectral import EMHMM, AnchorHMM, SpectralBrownClustering
from dspectral.io import TaggedSentences, read_conll

from ._form.plots import COLOURS, new_bars
from ._parts.scores import many_to_one, one_to_one

METRICS: dict[str, Callable[..., float]] = {
    "many_to_one": many_to_one,
    "one_to_one": one_to_one,
    "v_measure": v_measure_score,
}


def main(argv: list[str] | None = None) -> None:
    """Read, fit, score."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        data = read(arguments.corpus, arguments.word_column, arguments.tag_column)
        n_tokens = sum(map(len, data.words))
        run.note(f"{len(data.words)} sentences, {n_tokens} tokens, {len(set(chain(*data.tags)))} tags")
        scores: dict[str, list[float]] = {}
        for method in arguments.methods:
            for number in range(arguments.seeds):
                model, value = fitted(run, data, method, arguments.seed + number)
                scores.setdefault(method, []).append(value)
                if number == 0 and isinstance(model, AnchorHMM):
                    anchors(run, data, method, model)
                    run.save(lambda path, kept=model: dspectral.save(kept, path))  # type: ignore[misc]
        plot(run, scores)


def read(paths: Sequence[str], word_column: int, tag_column: int) -> TaggedSentences:
    """Read files as one corpus."""
    parts = [read_conll(path, word_column=word_column, tag_column=tag_column) for path in paths]
    return TaggedSentences(*(list(chain(*column)) for column in zip(*parts, strict=True)))


def chosen(arguments: argparse.Namespace, method: str, seed: int) -> Any:
    """Return the estimator of a method."""
    m = arguments.n_states
    if method == "em":
        return EMHMM(m, n_iter=arguments.em_iterations, random_state=seed)
    if method == "brown":
        return SpectralBrownClustering(m, min_count=1, random_state=seed)
    if method == "anchor-plain":
        return AnchorHMM.as_published(m, random_state=seed)
    spelling = arguments.spelling if method == "anchor+spelling" else 0.0
    return AnchorHMM(m, min_count=arguments.min_count, spelling=spelling, random_state=seed)


def fitted(run: form.Run, data: TaggedSentences, method: str, seed: int) -> tuple[Any, float]:
    """Fit and report one method with one seed, and return its many-to-one."""
    model = chosen(run.arguments, method, seed)
    used = run.fit(f"{method}, seed {seed}", model, data.words)
    states = np.concatenate(states_of(model, data.words))
    tags = list(chain(*data.tags))
    values = {metric: score(tags, states) for metric, score in METRICS.items()}
    found = {**values, "cpu_seconds": used.cpu_seconds}
    run.rows(found, data=name_of(run), method=method, n_states=model_size(model), seed=seed)
    return model, values["many_to_one"]


def model_size(model: Any) -> int:
    """Return the number of states or clusters."""
    return int(model.n_clusters if isinstance(model, SpectralBrownClustering) else model.n_states)


def states_of(model: Any, words: list[list[str]]) -> list[NDArray[Any]]:
    """Return the states of the tokens of each sentence."""
    if not isinstance(model, SpectralBrownClustering):
        return list(model.predict(words))
    flat = model.predict(list(chain(*words)))
    return np.split(flat, np.cumsum([len(sentence) for sentence in words])[:-1])


def anchors(run: form.Run, data: TaggedSentences, method: str, model: AnchorHMM) -> None:
    """Note the anchor of each state, and the tag it stands for."""
    seen: list[Counter[str]] = [Counter() for _ in range(model.n_states)]
    for states, tags in zip(model.predict(data.words), data.tags, strict=True):
        for state, tag in zip(states.tolist(), tags, strict=True):
            seen[state][tag] += 1
    pairs = [
        f"{anchor} {tags.most_common(1)[0][0] if tags else 'never'}"
        for anchor, tags in zip(model.anchors_, seen, strict=True)
    ]
    run.note(f"{method}: the anchors and the most frequent tags of their states are {', '.join(pairs)}")
    for state, anchor in enumerate(model.anchors_):
        tokens = float(seen[state].total())
        tag = seen[state].most_common(1)[0][0] if tokens else ""
        fields = {"state": state, "anchor": anchor, "tag": tag}
        run.detail(data=name_of(run), method=method, metric="tokens", value=tokens, **fields)


def name_of(run: form.Run) -> str:
    """Name the data."""
    return run.arguments.name or Path(run.arguments.corpus[0]).parent.name or "corpus"


def plot(run: form.Run, scores: dict[str, list[float]]) -> None:
    """Draw many-to-one of each fit."""
    means = {method: float(np.mean(values)) for method, values in scores.items()}
    spreads = {method: float(np.std(values)) for method, values in scores.items()}
    figure, axes = new_bars(name_of(run), x="many-to-one accuracy", values=means, errors=spreads)
    for place, values in enumerate(scores.values()):
        if len(values) > 1:
            axes.plot(values, [place] * len(values), "o", color=COLOURS[1], markersize=4, zorder=3)
    run.plot(
        "many_to_one",
        figure,
        "Share of tokens whose state's most frequent tag is theirs: the mean over the seeds, their standard "
        "deviation, and a point for each seed.",
    )
    best = max(means, key=lambda method: means[method])
    run.answer(
        f"Read as tags, the states of `{best}` are right for {means[best]:.1%} of the tokens of {name_of(run)} "
        f"(many-to-one, {len(scores[best])} {'seed' if len(scores[best]) == 1 else 'seeds'})"
        + "".join(f"; `{method}` {mean:.1%}" for method, mean in means.items() if method != best)
        + "."
    )


if __name__ == "__main__":
    main()
