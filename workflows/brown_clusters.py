"""Cluster the words of a corpus by what stands beside them, and give each cluster a bit string.

The text is read twice (words are counted, then numbered); its adjacent words are counted once for each number of
clusters. Methods: `spectral` is the spectral start alone, `spectral+exchange` what the sweeps make of it, `plain`
(with `--plain`) the paper's own setting. Given named entities, a linear-chain CRF is trained with and without bit
strings as features: methods `baseline` and `clusters`, metric `f1`. Files in the form of the usual Brown tools,
`paths-M`, are written beside the report.
"""

import argparse
from functools import partial

from ._form import form
from ._parts.text_options import add_corpus_options, add_text_options, check_sources, read_corpus


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("brown_clusters", __doc__)
    add = parser.add_argument
    add_corpus_options(parser)
    add("--n-clusters", nargs="+", type=form.positive, default=[100], metavar="M", help="numbers of clusters")
    about = "dimensions of the start"
    add("--n-dimensions", type=form.positive, default=64, metavar="K", help=about)
    add("--refine", type=int, default=5, metavar="SWEEPS", help="most exchange sweeps")
    add("--plain", action="store_true", help="also the paper's own setting, with M dimensions")
    add_text_options(parser, "sentence")
    for side in ("train", "dev", "test"):
        about = "a word and an IOB2 tag a line (default: no names are sought)"
        add(f"--ner-{side}", metavar="CONLL", help=about)
    parser.check = partial(check, parser)
    return parser


def check(parser: form.Parser, arguments: argparse.Namespace) -> None:
    """End the program if a file is missing, or one of three sides of named entities."""
    check_sources(parser, arguments)
    sides = (arguments.ner_train, arguments.ner_dev, arguments.ner_test)
    if any(sides) and not all(sides):
        parser.error("named entities need all three sides: --ner-train, --ner-dev and --ner-test")


form.check_options(__name__, options)

from pathlib import Path
from tempfile import TemporaryDirectory

import dspectral
from dspectral import SpectralBrownClustering, plot_brown_tree
from dspectral.io import write_brown_paths
from dspectral.store import Corpus

from ._form.plots import at_integers, from_zero, new_lines
from ._parts import entities
from ._parts.word_lists import name_of


def main(argv: list[str] | None = None) -> None:
    """Count, cluster, score."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, TemporaryDirectory(prefix="dspectral-") as scratch:
        with run.measure("count and number the words") as used:
            corpus = read_corpus(arguments, f"{scratch}/corpus.zarr")
        run.passes += 2
        run.note(f"{corpus.n_tokens:,} tokens, {len(corpus.words):,} word types with <?> for the rare ones")
        models = [clustered(run, corpus, m, used.cpu_seconds, best=n == 0) for n, m in enumerate(arguments.n_clusters)]
        plot(run, models)
        if arguments.ner_train:
            tag(run, models[-1])


def clustered(run: form.Run, corpus: Corpus, m: int, corpus_seconds: float, *, best: bool) -> SpectralBrownClustering:
    """Fit one number of clusters, report it, and write its paths."""
    arguments = run.arguments
    model = SpectralBrownClustering(
        m, n_dimensions=arguments.n_dimensions, n_sweeps=arguments.refine, random_state=arguments.seed
    )
    used = run.fit(f"{m} clusters", model, corpus)
    report(run, "spectral", m, model.history_[0], corpus_seconds + used.cpu_seconds)
    if len(model.history_) > 1:
        report(run, "spectral+exchange", m, model.history_[-1], corpus_seconds + used.cpu_seconds)
    if arguments.plain:
        plain = SpectralBrownClustering.as_published(m, random_state=arguments.seed)
        used = run.fit(f"{m} clusters, the paper's setting", plain, corpus)
        report(run, "plain", m, plain.history_[0], corpus_seconds + used.cpu_seconds)
    write_brown_paths(str(Path(arguments.out) / f"paths-{m}"), model.codes(), model.words_, model.word_counts_)
    if best:
        run.save(lambda path: dspectral.save(model, path))
    return model


def report(run: form.Run, method: str, m: int, information: float, cpu_seconds: float) -> None:
    """Add the rows of one clustering; the seconds are those of counting, start, sweeps and tree together."""
    values = {"average_mutual_information_bits": information, "cpu_seconds": cpu_seconds}
    run.rows(values, data=name_of(run.arguments.corpus[0]), method=method, n_clusters=m)


def tag(run: form.Run, model: SpectralBrownClustering) -> None:
    """Score named entities with and without the bit strings of the last model."""
    arguments = run.arguments
    train, dev, test = (
        entities.read_tagged(path) for path in (arguments.ner_train, arguments.ner_dev, arguments.ner_test)
    )
    codes = dict(zip(model.words_, model.codes(), strict=True))
    for method, known in (("baseline", entities.NOTHING), ("clusters", entities.Known(codes))):
        with run.measure(f"named entities, {method}"):
            scored = entities.score(train, dev, test, known)
        data = Path(arguments.ner_train).parent.name or "entities"
        fields = {"penalty": scored.penalty, "n_clusters": model.n_clusters}
        run.rows({"f1": scored.f1}, data=data, method=method, **fields)


def plot(run: form.Run, models: list[SpectralBrownClustering]) -> None:
    """Draw the first model's tree, and mutual information against sweeps."""
    caption = "The tree of the classes: bit strings, and the most frequent words of each class; a large tree is cut."
    run.plot("tree", plot_brown_tree(models[0]).figure, caption)
    figure, axes = new_lines(
        name_of(run.arguments.corpus[0]),
        {f"{model.n_clusters} clusters": list(enumerate(model.history_)) for model in models},
        x="exchange sweeps",
        y="average mutual information, bits",
    )
    at_integers(axes)
    from_zero(axes)
    run.plot("information", figure, "Average mutual information of adjacent clusters after each sweep.")
    best = models[0]
    run.answer(
        f"{best.n_clusters} clusters of {len(best.words_):,} words keep {best.history_[-1]:.3f} bits of the mutual "
        f"information of adjacent words; the spectral start alone kept {best.history_[0]:.3f}."
    )


if __name__ == "__main__":
    main()
