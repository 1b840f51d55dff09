"""Word vectors from the context counts of a corpus, and how well they know similarity and analogies.

The text is read twice (words are counted, then numbered), its contexts are counted, and each combination of the
settings asked for is decomposed. Contexts that go to disk (`--counts-memory`) are counted once for each window.
Similarity is Spearman's correlation of cosines with judgements, analogies are answered by 3CosAdd and 3CosMul; each
row says which share of the pairs or questions is covered. `--parts first second` scores the two (seeded) halves of
each list apart: choose on one, report the other. `--others` scores the vectors of other tools on the same lists.
"""

import argparse

from ._form import form
from ._parts.text_options import add_corpus_options, add_text_options, read_corpus


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("word_embeddings", __doc__)
    add = parser.add_argument
    add_corpus_options(parser)
    add("--store", metavar="DIR", help="keep the corpus here, or take the one that is (default: none is kept)")
    add_lists(parser)
    add_count_settings(parser)
    add_vector_settings(parser)
    add("--counts-memory", type=form.positive, default=1024, metavar="MB", help="before they go to disk")
    add_text_options(parser, "sentence")
    return parser


def add_lists(parser: argparse.ArgumentParser) -> None:
    """Add what vectors are scored on, and which other ones are."""
    add = parser.add_argument
    about = "header; two words and a score (default: none)"
    add("--similarity", nargs="*", default=[], metavar="TSV", help=about)
    about = "header; a b c d in the last four columns (default: none)"
    add("--analogies", nargs="*", default=[], metavar="TSV", help=about)
    add(
        "--parts",
        nargs="+",
        choices=("all", "first", "second"),
        default=["all"],
        help="of each list: all, or halves (seeded)",
    )
    about = "vectors of other tools, in word2vec's formats (default: none)"
    add("--others", nargs="*", default=[], metavar="W2V", help=about)


def add_count_settings(parser: argparse.ArgumentParser) -> None:
    """Add how contexts are counted and scaled; of settings with several values all combinations are tried."""
    add = parser.add_argument
    about = "length of a vector"
    add("--n-components", type=form.positive, default=300, metavar="K", help=about)
    about = "of the counts: sqrt, log, none or a power"
    add("--transform", nargs="+", type=transform_of, default=["sqrt"], help=about)
    about = "of the counts"
    add("--scaling", nargs="+", default=["cca"], choices=["cca", "ppmi", "reg", "none"], help=about)
    add("--window", nargs="+", type=form.positive, default=[10], help="words on each side")
    add("--context", choices=["bag", "list", "zones"], default="bag", help="whether places count")
    add("--no-distance-weighting", action="store_true", help="count 1 at every distance, not 1/distance")
    add(
        "--context-smoothing",
        nargs="+",
        type=float,
        default=[0.75],
        metavar="X",
        help="exponent of the contexts' frequencies",
    )


def add_vector_settings(parser: argparse.ArgumentParser) -> None:
    """Add how vectors follow from the counts."""
    add = parser.add_argument
    add("--power", nargs="+", type=float, default=[0.7], metavar="P", help="of the singular values")
    add("--n-skipped", nargs="+", type=int, default=[1], help="leading vectors left out")
    about = "hash contexts to so many columns (default: none are hashed)"
    add("--n-contexts", type=form.positive, metavar="N", help=about)
    add("--n-passes", type=form.positive, default=6, metavar="N", help="of the solver")
    add("--sketch-size", type=form.positive, metavar="L", help="of the solver (default: 4 K)")


def transform_of(text: str) -> str | float:
    """Read a transform: a name, or a power."""
    if text in ("sqrt", "log", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not sqrt, log, none or a power") from None


form.check_options(__name__, options)

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import numpy as np

import dspectral
from dspectral import (
    EmbeddingRecipe,
    WordEmbedding,
    open_corpus,
    plot_words,
    read_word2vec,
    write_word2vec,
)
from dspectral.store import Corpus
from dspectral.types import FloatArray

from ._form.plots import from_zero, new_bars, new_plot
from ._parts.scores import analogy_accuracy, word_similarity
from ._parts.word_lists import WordList, name_of, read_lists

ON_MAP = 120
"""Words on the map."""
SHORT = {
    "spearman": "similarity",
    "accuracy_3cosadd": "analogies",
    "accuracy_3cosmul": "analogies by products",
}
"""Names of the metrics in the picture."""
LEAST_RANK, LEAST_LETTERS, MOST_BARS = 100, 5, 12


def main(argv: list[str] | None = None) -> None:
    """Count, decompose, score."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        lists = read_lists(arguments.similarity, arguments.analogies, arguments.parts, arguments.seed)
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            with run.measure("count and number the words") as used:
                corpus = corpus_of(arguments, f"{scratch}/corpus.zarr")
            run.passes += 2
            run.note(
                f"{corpus.n_tokens:,} tokens in {corpus.n_sentences:,} sentences, {len(corpus.words):,} word types "
                f"that occur {arguments.min_count} times or more, with <?> for all others"
            )
            found = [
                embed(run, corpus, lists, used.cpu_seconds, setting, first=n == 0)
                for n, setting in enumerate(settings(arguments))
            ]
        for path in arguments.others:
            words, vectors = read_word2vec(path, errors="replace")
            with run.measure(f"score {path}"):
                score(run, words, vectors, lists, name_of(path), {})
        show(run, found[0])


def corpus_of(arguments: argparse.Namespace, scratch: str) -> Corpus:
    """Open the corpus kept by an earlier run, or build it."""
    if arguments.store and Path(arguments.store).expanduser().exists():
        return open_corpus(arguments.store)
    return read_corpus(arguments, arguments.store or scratch)


def settings(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the settings to try, by the names of the options; the first is saved."""
    names = ("window", "transform", "scaling", "context_smoothing", "power", "n_skipped")
    for values in product(*(getattr(arguments, name) for name in names)):
        yield dict(zip(names, values, strict=True))


def embed(
    run: form.Run,
    corpus: Corpus,
    lists: list[WordList],
    corpus_seconds: float,
    setting: dict[str, Any],
    *,
    first: bool,
) -> str:
    """Fit one setting, score it, keep the first as the model, and return what is nearest to some of its words."""
    arguments = run.arguments
    embedding = embedding_of(arguments, setting)
    shown = {**setting, "transform": str(setting["transform"])}
    limit = {"dspectral.memory-limit": arguments.counts_memory << 20}
    title = ", ".join(f"{name} {value}" for name, value in shown.items())
    with dask.config.set(limit):
        used = run.fit(title, embedding, corpus)
    method = f"{setting['transform']}-{setting['scaling']}"
    with run.measure("score"):
        # The type of rare words is no answer.
        score(run, embedding.words_[1:], embedding.vectors_[1:], lists, method, shown)
    seconds = round(corpus_seconds + used.cpu_seconds, 2)
    run.row(data=name_of(arguments.corpus[0]), method=method, metric="cpu_seconds", value=seconds, **shown)
    if first:
        run.save(lambda path: keep(embedding, path))
        caption = "The most frequent words on the plane on which their vectors differ most."
        run.plot("words", plot_words(embedding, embedding.words_[1 : 1 + ON_MAP]).figure, caption)
        run.plot("spectrum", spectrum_of(embedding), "Singular values of the scaled counts, largest first.")
    return neighbours(embedding.words_[1:], embedding.vectors_[1:]) if first else ""


def embedding_of(arguments: argparse.Namespace, setting: dict[str, Any]) -> WordEmbedding:
    """Make the estimator of one setting."""
    recipe = EmbeddingRecipe(
        context=arguments.context,
        distance_weighting=not arguments.no_distance_weighting,
        context_smoothing=setting["context_smoothing"],
        n_skipped=setting["n_skipped"],
        n_contexts=arguments.n_contexts,
        sketch_size=arguments.sketch_size,
        n_passes=arguments.n_passes,
    )
    return WordEmbedding(
        arguments.n_components,
        window=setting["window"],
        count_transform=setting["transform"],
        scaling=setting["scaling"],
        power=setting["power"],
        random_state=arguments.seed,
        recipe=recipe,
    )


def score(
    run: form.Run,
    words: list[str],
    vectors: FloatArray,
    lists: list[WordList],
    method: str,
    shown: dict[str, Any],
) -> None:
    """Add rows for every list."""
    for entries in lists:
        fields = {**shown, "part": entries.part}
        if entries.pairs is not None:
            found = word_similarity(words, vectors, entries.pairs)
            more = {**fields, "coverage": round(found.coverage, 4), "n": found.n_pairs}
            run.row(data=entries.name, method=method, metric="spearman", value=rounded(found.spearman), **more)
        for name, kind in (("accuracy_3cosadd", "add"), ("accuracy_3cosmul", "mul")):
            if entries.questions is not None:
                answers = analogy_accuracy(words, vectors, entries.questions, method=kind)
                more = {**fields, "coverage": round(answers.coverage, 4), "n": answers.n_questions}
                run.row(data=entries.name, method=method, metric=name, value=rounded(answers.accuracy), **more)


def keep(embedding: WordEmbedding, path: Path) -> None:
    """Save the model, and beside it its vectors for other tools."""
    dspectral.save(embedding, path)
    write_word2vec(str(path.parent / "vectors.bin"), embedding.words_, embedding.vectors_)


def rounded(value: float) -> float | None:
    """Round for the report; None for what is not a number."""
    return None if np.isnan(value) else round(value, 4)


def spectrum_of(embedding: WordEmbedding) -> Any:
    """Draw the singular values."""
    figure, axes = new_plot("Spectrum of the scaled counts", x="component", y="singular value")
    axes.plot(1 + np.arange(len(embedding.singular_values_)), embedding.singular_values_)
    from_zero(axes)
    return figure


def neighbours(words: list[str], vectors: FloatArray, n_words: int = 3, k: int = 3) -> str:
    """Return, as text, the nearest words to some that are frequent, but say something.

    >>> neighbours(["river", "water", "knife"], np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), n_words=1, k=1)
    'nearest to “river”: water'
    """
    telling = [i for i, word in enumerate(words) if len(word) >= LEAST_LETTERS and word.isalpha()]
    chosen = ([i for i in telling if i >= LEAST_RANK] or telling)[:n_words]
    said = []
    for i in chosen:
        similar = vectors @ vectors[i]
        similar[i] = -np.inf
        best = np.argsort(-similar, kind="stable")[: min(k, len(words) - 1)]
        said.append(f"nearest to “{words[i]}”: {', '.join(words[j] for j in best)}")
    return "; ".join(said)


def scores_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the scores of the lists by a name for each, the best where several settings share it."""
    found: dict[str, float] = {}
    for row in rows:
        if row["metric"] in SHORT and row["value"] is not None:
            part = "" if row["part"] == "all" else f" ({row['part']})"
            name = f"{row['data']}{part}: {SHORT[row['metric']]}, {row['method']}"
            found[name] = max(found.get(name, -1.0), row["value"])
    return found


def show(run: form.Run, neighbours_found: str) -> None:
    """State the answer, and draw the scores before all other pictures, where there are any."""
    scores = scores_of(run.report.rows)
    sentence = neighbours_found[:1].upper() + neighbours_found[1:]
    if scores:
        best = max(scores, key=lambda name: scores[name])
        sentence += f"; of {len(scores)} scores the best is {scores[best]:.1%} ({best})"
        shown = dict(list(scores.items())[:MOST_BARS])
        figure, _ = new_bars("Scores of the lists", x="rank correlation, or share of right answers", values=shown)
        caption = "Rank correlation with people's judgements, and share of analogies that are right."
        run.plot("scores", figure, caption)
        run.report.plots.insert(0, run.report.plots.pop())
    if sentence:
        run.answer(f"{sentence}.")


if __name__ == "__main__":
    main()
