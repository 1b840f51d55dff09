"""Explore text of any size: one page with its words, classes, topics and documents.

Words are counted, laid out on a map and grouped into classes; documents get topics and nearest neighbors.
Everything is found out of core, and written into one HTML page that needs no other file; the topics also go to
``topics.json``, with their words and the row numbers of their most typical documents, and with ``--by`` their shares in
each group.
"""

import argparse
import json

import dspectral
from dspectral import exploring

from ._form import form
from ._parts.text_options import add_text_options, reading

CLEAN_RULES = ("headers", "quotes", "signatures", "markup", "urls", "users", "timestamps", "ids", "numbers")
"""Rules of cleaning."""


def main(argv: list[str] | None = None) -> None:
    """Explore a text and write its page."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        with run.meter.measure() as used:
            found = dspectral.explore(
                arguments.text,
                sizes=sizes_of(arguments),
                by=arguments.by,
                vectors=arguments.vectors,
                min_count=arguments.min_count,
                seed=arguments.seed,
                tokens=arguments.tokenizer or {"word": "language", "char": "characters"}[arguments.analyzer],
                block_bytes=arguments.block_bytes,
                **reading(arguments),
                clean=arguments.clean,
                scratch=arguments.scratch,
                stage=run.measure,
            )
        found.name = arguments.name or found.name
        found.peak_memory_bytes = used.peak_memory_bytes
        run.passes = sum(stage.n_passes for stage in found.stages)
        describe(run, found)
        run.note(found.sentence())
        run.attach("explore.html", found.html())
        topics = [{"words": topic.words, "documents": topic.documents} for topic in found.topics]
        if found.topics_by is not None:
            for topic, record in zip(found.topics, topics, strict=True):
                names, counts = found.topics_by.names, found.topics_by.n_documents.tolist()
                shares = found.topics_by.shares[:, topic.number].tolist()
                record["shares"] = {
                    name: share if n else None for name, n, share in zip(names, counts, shares, strict=True)
                }
        run.attach("topics.json", json.dumps(topics, indent=1, ensure_ascii=False) + "\n")
    print(f"page: {arguments.out / 'explore.html'}")


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("explore", __doc__)
    add = parser.add_argument
    add("text", nargs="+", metavar="FILE", help="files, folders, patterns of files, or URLs")
    add("--name", help="title of the page (default: the name of the first file)")
    fewest = "of a word with a vector and a class (default: 1 to 10, rising with the text)"
    by = "column or key of a group or date: shows the topics of each group, or over time (default: none)"
    add("--by", metavar="NAME", help=by)
    vectors = "vectors of the documents, .npy or Parquet, from which topics come (default: none, words)"
    add("--vectors", metavar="FILE", help=vectors)
    add("--min-count", type=form.positive, metavar="N", help=fewest)
    analyzer = "what words are: those between blanks and signs, or pairs of letters in Japanese, Chinese or Thai"
    add("--analyzer", choices=("word", "char"), default="word", help=analyzer)
    add("--tokenizer", metavar="MODULE:FUNCTION", help="function from text to words (default: none)")
    scratch = "for intermediate results, seen by all workers (default: a temporary folder)"
    add("--scratch", metavar="DIR", help=scratch)
    about = "parts that are not words and are masked; none after --clean masks nothing"
    add("--clean", nargs="*", choices=CLEAN_RULES, default=CLEAN_RULES, metavar="RULE", help=about)
    add("--block-bytes", type=form.positive, default=16 << 20, metavar="N", help="of text behind a block")
    add_text_options(parser, "document")
    sizes = parser.add_argument_group("largest sizes, of which short texts get less").add_argument
    for name, (default, what) in SIZES.items():
        sizes(f"--{name.replace('_', '-')}", type=form.positive, default=default, metavar="N", help=what)
    return parser


SIZES = {
    "n_words": (20_000, "words with vectors and classes, the most frequent ones"),
    "n_components": (50, "topics of documents"),
    "n_clusters": (100, "Brown classes"),
    "n_dimensions": (100, "length of a word's vector"),
    "n_listed": (4_000, "words whose nearest words are listed"),
    "n_mapped": (1_500, "words on the map"),
    "n_mapped_documents": (1_500, "documents on the map"),
    "n_documents": (200, "documents drawn at random"),
}
"""Default and description of each size."""


def sizes_of(arguments: argparse.Namespace) -> "exploring.Sizes":
    """Return the sizes of the options."""
    return exploring.Sizes(**{name: getattr(arguments, name) for name in SIZES})


def describe(run: "form.Run", found: "exploring.Exploration") -> None:
    """Add rows: what the text is, and how long each stage took."""
    for metric, value in found.size.items():
        run.row(data=found.name, method="explore", metric=metric, value=value)
    if found.classes is not None:
        run.row(
            data=found.name,
            method="explore",
            metric="average_mutual_information_bits",
            value=found.classes.information,
            n_clusters=found.settings["sizes"]["n_clusters"],
        )
    for stage in found.stages:
        run.detail(data=found.name, method=stage.name, metric="seconds", value=stage.seconds, passes=stage.n_passes)


if __name__ == "__main__":
    main()
