"""What text without labels is worth to a tagger of named entities: bit strings of words, their vectors, or both.

The text is read twice and its words are clustered and embedded; then the same linear-chain CRF learns with `none` of
it, with the `bits` of each word's string, with the numbers of its `vectors`, and with `both`, from all sentences of a
training side and from a share of them. How far from a word strings and vectors are features, and which prefixes, is one
choice for all data sets: of several that are given, the one with the largest mean F1 on the development sides, where
`both` learns from all sentences. `--ner` takes folders with `{train,dev,test}.conll` (or `.conll.gz`), a word and an
IOB2 tag a line.
"""

import argparse
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral import SpectralBrownClustering, WordEmbedding, build_corpus

from .._form import form
from .._form.plots import new_bars
from .._parts import entities
from .._parts.entities import Known, Tagged
from .._parts.text_options import add_text_options, reading

METHODS = ("none", "bits", "vectors", "both")
"""What the tagger is told of words beside the labelled sentences."""
SPREAD = 0.3
"""Standard deviation of the numbers of the vectors: better on development sides than .1."""
RESAMPLED = 500
"""Bootstrap samples of the test sentences behind a standard error."""


class Sides(NamedTuple):
    """A data set.

    `name`: name of its folder; `train, dev, test`: its sentences.
    """

    name: str
    train: list[Tagged]
    dev: list[Tagged]
    test: list[Tagged]


def main(argv: list[str] | None = None) -> None:
    """Learn from text, then from labels with each part of it."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        entities.crf()
        sets = [read_sides(folder, arguments.most_sentences, arguments.seed) for folder in arguments.ner]
        learned = learn(run)
        how = chosen(run, sets, learned)
        for sides in sets:
            for share in arguments.label_shares:
                compare(run, sides, share, learned._replace(window=how.window, prefixes=how.prefixes))
        show(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.named_entities", __doc__)
    add = parser.add_argument
    add("--corpus", nargs="+", required=True, metavar="FILE", help="text: files, folders, patterns, or URLs")
    add("--ner", nargs="+", type=Path, required=True, metavar="DIR", help="folders of data sets")
    shares = "of the training sentences that are learned from"
    add("--label-shares", nargs="+", type=form.share, default=[1.0, 0.1], metavar="S", help=shares)
    add("--draws", type=form.positive, default=3, metavar="R", help="random draws of a share below 1")
    add(
        "--most-sentences",
        type=form.positive,
        metavar="N",
        help="of a training and of a development side (default: all sentences)",
    )
    add("--min-count", type=form.positive, default=3, metavar="C", help="rarer words are one type")
    add("--tokens", choices=["blanks", "words"], default="words", help="how lines are cut")
    add("--n-clusters", type=form.positive, default=500, metavar="M", help="clusters of words")
    add("--n-components", type=form.positive, default=50, metavar="K", help="length of a word's vector")
    add(
        "--context",
        type=form.positive,
        default=2,
        metavar="W",
        help="words on each side that vectors come of",
    )
    near = "words on each side whose strings and vectors are features"
    add("--windows", nargs="+", type=form.positive, default=[entities.NOTHING.window], metavar="W", help=near)
    default = [",".join(map(str, entities.PREFIXES))]
    add("--prefixes", nargs="+", type=prefixes_of, default=default, metavar="N,N", help="bits of a string")
    add_text_options(parser, "sentence")
    return parser


def prefixes_of(text: str) -> str:
    """Check lengths of prefixes, as a ``type`` of argparse.

    >>> prefixes_of("4,6")
    '4,6'
    """
    for one in text.split(","):
        form.positive(one)
    return text


def read_sides(folder: Path, most: int | None, seed: int) -> Sides:
    """Read a data set, and leave no more than so many training and so many development sentences."""
    train, dev, test = (
        entities.read_tagged(str(next(iter(folder.glob(f"{side}.conll*")), folder / f"{side}.conll")))
        for side in ("train", "dev", "test")
    )
    return Sides(folder.name, drawn(train, most, seed), drawn(dev, most, seed), test)


def drawn(side: list[Tagged], most: int | None, seed: int) -> list[Tagged]:
    """Draw so many sentences, and leave them in their order."""
    kept = np.sort(np.random.default_rng(seed).permutation(len(side))[:most])
    return [side[i] for i in kept]


def learn(run: form.Run) -> Known:
    """Cluster and embed the words of the text."""
    arguments = run.arguments
    with TemporaryDirectory(prefix="dspectral-") as scratch:
        with run.measure("count and number the words") as read:
            corpus = build_corpus(
                arguments.corpus,
                f"{scratch}/corpus.zarr",
                min_count=arguments.min_count,
                lowercase=True,
                tokens=arguments.tokens,
                **reading(arguments),
            )
        run.note(f"{corpus.n_tokens:,} tokens, {len(corpus.words):,} word types with <?> for the rare ones")
        brown = SpectralBrownClustering(arguments.n_clusters, random_state=arguments.seed)
        with run.measure("bit strings") as clustered:
            brown.fit(corpus)
        embedding = WordEmbedding(
            arguments.n_components, window=arguments.context, random_state=arguments.seed
        )
        with run.measure("vectors") as embedded:
            embedding.fit(corpus)
    run.passes += 2 + brown.n_passes_ + embedding.n_passes_
    for method, used in (("read", read), ("bits", clustered), ("vectors", embedded)):
        for metric, value in (
            ("cpu_seconds", used.cpu_seconds),
            ("peak_memory_bytes", used.peak_memory_bytes),
        ):
            run.row(data="text", method=method, metric=metric, value=value)
    # Rows have length 1, so that the mean square of a number is 1 / K. The first word stands for all rare ones.
    scaled = SPREAD * np.sqrt(arguments.n_components) * embedding.vectors_[1:]
    codes = dict(zip(brown.words_[1:], brown.codes()[1:], strict=True))
    return Known(codes, dict(zip(embedding.words_[1:], scaled, strict=True)))


def chosen(run: form.Run, sets: list[Sides], learned: Known) -> Known:
    """Choose window and prefixes by the development sides; report what was seen there."""
    arguments = run.arguments
    tried = [
        learned._replace(window=window, prefixes=tuple(map(int, prefixes.split(","))))
        for window, prefixes in product(arguments.windows, arguments.prefixes)
    ]
    if len(tried) == 1:
        return tried[0]
    means = []
    for known in tried:
        reached = []
        for sides in sets:
            settings = said(known)
            with run.measure(f"{sides.name}: try {settings}"):
                # Scored on the development side twice, so that the test side is not looked at.
                scored = entities.score(sides.train, sides.dev, sides.dev, known)
            reached.append(scored.f1_dev)
            run.row(
                data=sides.name,
                method="both",
                metric="f1",
                value=scored.f1_dev,
                side="dev",
                settings=settings,
            )
        means.append(float(np.mean(reached)))
    return tried[int(np.argmax(means))]


def said(known: Known) -> str:
    """Say a window and prefixes."""
    return f"window {known.window}, prefixes {','.join(map(str, known.prefixes))}"


def told(known: Known, method: str) -> Known:
    """Leave of what is known what a method is told."""
    if method == "none":
        return entities.NOTHING
    codes = known.codes if method in ("bits", "both") else {}
    return known._replace(codes=codes, vectors=known.vectors if method in ("vectors", "both") else {})


def compare(run: form.Run, sides: Sides, share: float, known: Known) -> None:
    """Report each method with a share of the labels, and what it gains over none."""
    n = max(1, round(share * len(sides.train)))
    draws = run.arguments.draws if n < len(sides.train) else 1
    parts = [drawn(sides.train, n, run.arguments.seed + draw) for draw in range(draws)]
    none: list[entities.Scored] = []
    for method in METHODS:
        with run.measure(f"{sides.name}, {share:.0%} of the labels: {method}"):
            found = [entities.score(part, sides.dev, sides.test, told(known, method)) for part in parts]
        none = none or found
        penalty = ", ".join(dict.fromkeys(f"{one.penalty:g}" for one in found))
        where = {"data": sides.name, "method": method, "metric": "f1", "label_share": share, "n": n}
        f1, f1_dev = (float(np.mean([getattr(one, name) for one in found])) for name in ("f1", "f1_dev"))
        gained, error = gain(found, none)
        how = {"draws": draws, "penalty": penalty, "settings": said(known)}
        run.row(**where, value=f1, side="test", over_none=gained, standard_error=error, **how)
        run.row(**where, value=f1_dev, side="dev", **how)


def gain(ours: list[entities.Scored], theirs: list[entities.Scored]) -> tuple[float, float]:
    """Return the mean gain in F1, and its standard error by paired resampling of the test sentences.

    Draws of the labels share their test sentences, which are resampled for all of them together.
    """
    rng = np.random.default_rng(0)
    pairs = [(a.counts, b.counts) for a, b in zip(ours, theirs, strict=True)]
    n = len(pairs[0][0])
    samples = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(RESAMPLED)]
    gains = [np.mean([ratio(a, sample) - ratio(b, sample) for a, b in pairs]) for sample in samples]
    mean = np.mean([a.f1 - b.f1 for a, b in zip(ours, theirs, strict=True)])
    return float(mean), float(np.std(gains))


def ratio(counts: NDArray[np.int64], weights: NDArray[np.int64]) -> float:
    """Return the F1 of weighted sentences."""
    right, total = weights @ counts
    return float(right / total) if total else 0.0


def show(run: form.Run) -> None:
    """State the gain of both, and draw all scores."""
    rows = [row for row in run.report.rows if row["metric"] == "f1" and row["side"] == "test"]
    gains = [
        f"{100 * row['over_none']:+.1f} (s.e. {100 * row['standard_error']:.1f}) on {row['data']} with "
        f"{row['label_share']:.0%} of the labels"
        for row in rows
        if row["method"] == "both"
    ]
    run.answer(f"Bit strings and vectors together change F1, in points, by {'; '.join(gains)}.")
    values = {f"{row['data']}, {row['label_share']:.0%}: {row['method']}": row["value"] for row in rows}
    figure, _ = new_bars("Named entities", x="F1", values=values)
    run.plot("f1", figure, "F1 by entity on the test side, by what the tagger is told of words.")


if __name__ == "__main__":
    main()
