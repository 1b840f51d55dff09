"""Word vectors from the context counts of a corpus, and how well they know similarity and analogies.

The text is read twice (words are counted, then numbered), its contexts are counted once for each window, and
each transform and scaling asked for is decomposed. Similarity is Spearman's correlation of cosines with
judgements, analogies are answered by 3CosAdd and 3CosMul; each row says which share of the pairs or questions is
covered. `--half` scores one half of each list alone: choose on one, report the other.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fsspec
import numpy as np

import dspectral
from dspectral import WordEmbedding, build_corpus, open_corpus, write_word2vec
from dspectral.metrics.analogies import analogy_accuracy
from dspectral.metrics.similarity import word_similarity
from dspectral.store.corpus import Corpus
from workflows import form
from workflows.plots import new_plot


class Lists(NamedTuple):
    """What vectors are scored on, each list under its name."""

    pairs: dict[str, list[tuple[str, str, float]]]
    questions: dict[str, list[tuple[str, str, str, str]]]


def main(argv: list[str] | None = None) -> None:
    """Count, decompose, score."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        lists = read_lists(arguments)
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            with run.measure("count and number the words") as used:
                corpus = corpus_of(arguments, f"{scratch}/corpus.zarr")
            run.passes += 2
            run.note(
                f"{corpus.n_tokens} tokens in {corpus.n_sentences} sentences, {len(corpus.words)} word types that "
                f"occur {arguments.min_count} times or more, with <?> for all others"
            )
            for n, (window, transform, scaling) in enumerate(settings(arguments)):
                embed(run, corpus, lists, used.cpu_seconds, window, transform, scaling, best=n == 0)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("word_embeddings", __doc__)
    add = parser.add_argument
    add("--corpus", nargs="+", required=True, metavar="FILE", help="text, a sentence a line; also .gz, URLs")
    add("--min-count", type=form.positive, default=11, metavar="C", help="rarer words are one type (11)")
    add("--tokens", choices=["blanks", "words"], default="blanks", help="how lines are cut (at blanks)")
    add("--lowercase", action="store_true", help="lower the case first")
    add(
        "--store", metavar="DIR", help="keep the corpus here, or take the one that is (default: none is kept)"
    )
    add("--similarity", nargs="*", default=[], metavar="TSV", help="header; two words and a score")
    add("--analogies", nargs="*", default=[], metavar="TSV", help="header; a b c d in the last four columns")
    add("--half", type=int, choices=[1, 2], help="score one half of each list (seeded) instead of all")
    default = WordEmbedding()
    add("--n-components", type=form.positive, default=default.n_components, metavar="K", help="length (300)")
    add(
        "--transform",
        nargs="+",
        type=transform_of,
        default=[default.transform],
        help="sqrt log none or power",
    )
    add("--scaling", nargs="+", default=[default.scaling], choices=["cca", "ppmi", "reg", "none"])
    add("--window", nargs="+", type=form.positive, default=[default.window], help="words on each side")
    add("--context", choices=["bag", "list"], default=default.context)
    add("--no-distance-weighting", action="store_true", help="count 1 at every distance, not 1/distance")
    add("--context-smoothing", type=float, default=default.context_smoothing, metavar="X", help="exponent")
    add("--power", type=float, default=default.power, metavar="P", help="of the singular values")
    add("--n-skipped", type=int, default=default.n_skipped, metavar="N", help="leading vectors left out")
    add("--n-contexts", type=form.positive, metavar="N", help="hash contexts to so many columns")
    add("--n-passes", type=form.positive, default=default.n_passes, metavar="N", help="of the solver")
    add("--sketch-size", type=form.positive, metavar="L", help="of the solver (4 K)")
    add(
        "--counts-memory",
        type=form.positive,
        default=1024,
        metavar="MB",
        help="before they go to disk (1024)",
    )
    return parser


def corpus_of(arguments: argparse.Namespace, scratch: str) -> Corpus:
    """Open the corpus kept by an earlier run, or build it."""
    if arguments.store and Path(arguments.store).exists():
        return open_corpus(arguments.store)
    return build_corpus(
        arguments.corpus,
        arguments.store or scratch,
        min_count=arguments.min_count,
        lowercase=arguments.lowercase,
        tokens=arguments.tokens,
    )


def transform_of(text: str) -> str | float:
    """Read a transform: a name, or a power."""
    if text in ("sqrt", "log", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not sqrt, log, none or a power") from None


def settings(arguments: argparse.Namespace) -> Iterator[tuple[int, str | float, str]]:
    """Yield what is to be tried; the first is saved."""
    yield from product(arguments.window, arguments.transform, arguments.scaling)


def embed(
    run: form.Run,
    corpus: Corpus,
    lists: Lists,
    corpus_seconds: float,
    window: int,
    transform: Any,
    scaling: Any,
    *,
    best: bool,
) -> None:
    """Fit one setting, score it, and keep the first as the model."""
    arguments = run.arguments
    embedding = WordEmbedding(
        arguments.n_components,
        transform=transform,
        scaling=scaling,
        window=window,
        context=arguments.context,
        distance_weighting=not arguments.no_distance_weighting,
        context_smoothing=arguments.context_smoothing,
        power=arguments.power,
        n_skipped=arguments.n_skipped,
        n_contexts=arguments.n_contexts,
        n_passes=arguments.n_passes,
        sketch_size=arguments.sketch_size,
        memory_limit=arguments.counts_memory << 20,
        random_state=arguments.seed,
    )
    with run.measure(f"window {window}, {transform}, {scaling}") as used:
        embedding.fit(corpus)
    run.passes += embedding.n_passes_
    shown = {"window": window, "transform": str(transform), "scaling": scaling}
    method = f"{transform}-{scaling}"
    with run.measure("score"):
        score(run, embedding, lists, method, shown)
    name = name_of(arguments.corpus[0])
    seconds = round(corpus_seconds + used.cpu_seconds, 2)
    run.row(data=name, method=method, metric="cpu_seconds", value=seconds, **shown)
    if best:
        run.save(lambda path: keep(embedding, path))
        run.plot("spectrum", spectrum_of(embedding), "Singular values of the scaled counts, largest first.")


def score(run: form.Run, embedding: WordEmbedding, lists: Lists, method: str, shown: dict[str, Any]) -> None:
    """Add rows for every list; the type of rare words is no answer."""
    words, vectors = embedding.words_[1:], embedding.vectors_[1:]
    for data, pairs in lists.pairs.items():
        found = word_similarity(words, vectors, pairs)
        more = {**shown, "coverage": round(found.coverage, 4), "n": found.n_pairs}
        run.row(data=data, method=method, metric="spearman", value=rounded(found.spearman), **more)
    for data, questions in lists.questions.items():
        for name, kind in (("accuracy_3cosadd", "add"), ("accuracy_3cosmul", "mul")):
            answers = analogy_accuracy(words, vectors, questions, method=kind)
            more = {**shown, "coverage": round(answers.coverage, 4), "n": answers.n_questions}
            run.row(data=data, method=method, metric=name, value=rounded(answers.accuracy), **more)


def keep(embedding: WordEmbedding, path: Path) -> None:
    """Save the model, and beside it its vectors for other tools."""
    dspectral.save(embedding, path)
    write_word2vec(str(path.parent / "vectors.bin"), embedding.words_, embedding.vectors_)


def rounded(value: float) -> float | None:
    """Round for the report; None for what is not a number."""
    return None if np.isnan(value) else round(value, 4)


def spectrum_of(embedding: WordEmbedding) -> Any:
    """Draw the singular values."""
    figure, axes = new_plot("Spectrum of the scaled counts", x="component", y="singular value", log="y")
    axes.plot(1 + np.arange(len(embedding.singular_values_)), embedding.singular_values_)
    return figure


def read_lists(arguments: argparse.Namespace) -> Lists:
    """Read all lists, or a half of each."""
    pairs: dict[str, Any] = {}
    for path in arguments.similarity:
        pairs[name_of(path)] = [(a, b, number(path, value)) for a, b, value in fields_of(path, 3)]
    questions = {
        name_of(path): [tuple(fields) for fields in fields_of(path, 4)] for path in arguments.analogies
    }
    if arguments.half:
        pairs, questions = (
            {name: half_of(entries, arguments.half, arguments.seed) for name, entries in lists.items()}
            for lists in (pairs, questions)
        )
    return Lists(pairs, questions)


def half_of(entries: list[Any], half: int, seed: int) -> list[Any]:
    """Return one of the two random halves of a list, in its order."""
    first = np.zeros(len(entries), dtype=bool)
    first[np.random.default_rng(seed).permutation(len(entries))[: len(entries) // 2]] = True
    return [entry for entry, is_first in zip(entries, first, strict=True) if is_first == (half == 1)]


def fields_of(path: str, n: int) -> list[list[str]]:
    """Return the last columns of a TSV with a header, in lower case.

    Raises
    ------
    ValueError
        If a line has fewer; the file and line are named.
    """
    rows = []
    with fsspec.open(path, "rt", encoding="utf-8", compression="infer") as file:
        next(iter(file), None)
        for line_number, line in enumerate(file, start=2):
            fields = line.lower().rstrip("\r\n").split("\t")
            if len(fields) < n:
                raise ValueError(f"{path}, line {line_number} has {len(fields)} columns, but needs {n}")
            rows.append(fields[-n:])
    return rows


def number(path: str, text: str) -> float:
    """Read a score.

    Raises
    ------
    ValueError
        If it is none; the file is named.
    """
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path} has the score {text!r}, which is not a number") from None


def name_of(path: str) -> str:
    """Name data by its file, without endings.

    Examples
    --------
    >>> name_of("wordsim/ws353.tsv"), name_of("mix6m.txt.gz")
    ('ws353', 'mix6m')
    """
    return Path(path).name.split(".")[0]


if __name__ == "__main__":
    main()
