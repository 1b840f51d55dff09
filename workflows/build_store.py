"""Count the n-grams of text files into a store, from which everything else reads.

Texts are hashed to columns in one pass, or counted over an exact vocabulary in two. Both are parallel, and a
build that was stopped goes on where it was when the same command is given again.
"""

import argparse
from typing import Any

from ._form import form
from ._parts.text_options import add_text_options, reading


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("build_store", __doc__, fits=False)
    add = parser.add_argument
    add("--text", nargs="+", required=True, metavar="SOURCE", help="files, folders, patterns, or URLs")
    add("--store", required=True, metavar="STORE", help="folder or URL to write")
    about = "bytes of text behind a block"
    add("--block-bytes", type=form.positive, default=16 << 20, metavar="N", help=about)
    add("--append", action="store_true", help="add the documents to a finished store")
    add("--overwrite", action="store_true", help="replace a finished store, once the new one is complete")
    dropped = "first drop what an unfinished build of other settings left"
    add("--discard-unfinished", action="store_true", help=dropped)
    add_text_options(parser, "document")
    add_columns(parser)
    return parser


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a column is."""
    add = parser.add_argument_group("columns").add_argument
    pair: dict[str, Any] = {"type": form.positive, "nargs": 2, "metavar": ("MIN", "MAX")}
    add("--ngrams", **pair, help="words of an n-gram (default: 1 1)")
    add("--columns-bits", type=form.bits, default=17, metavar="B", help="hash to 2^B columns")
    add("--vocabulary", action="store_true", help="do not hash, count over an exact vocabulary")
    share: dict[str, Any] = {"type": count_or_share, "metavar": "F"}
    add("--min-document-frequency", **share, default=1, help="a number of documents, or a share like 0.01")
    add("--max-document-frequency", **share, default=1.0, help="words in more documents are left out")
    about = "keep the N most frequent words (default: all)"
    add("--max-features", type=form.positive, metavar="N", help=about)


def count_or_share(text: str) -> int | float:
    """Read a number of documents, or a share of them, as a ``type`` of argparse.

    >>> count_or_share("5"), count_or_share("0.5")
    (5, 0.5)
    """
    return int(text) if text.isdecimal() else form.share(text)


form.check_options(__name__, options)

import numpy as np
from numpy.typing import NDArray

import dspectral
from dspectral import store as stores

POINTS = 500
"""Points of a curve over all columns."""


def main(argv: list[str] | None = None) -> None:
    """Build a store and describe it."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        if arguments.discard_unfinished:
            stores.discard_unfinished(arguments.store)
        before = dspectral.open_store(arguments.store).n_rows if arguments.append else 0
        hashing, vocabulary = settings(arguments)
        with run.measure("build") as used:
            store = dspectral.build_store(
                arguments.text,
                arguments.store,
                **reading(arguments),
                hashing=hashing,
                vocabulary=vocabulary,
                block_bytes=arguments.block_bytes,
                append=arguments.append,
                overwrite=arguments.overwrite,
            )
        run.passes = 2 if arguments.vocabulary and not arguments.append else 1
        describe(run, store, (store.n_rows - before) / used.seconds)


def settings(
    arguments: argparse.Namespace,
) -> "tuple[dspectral.NgramHashing | None, dspectral.VocabularySettings | None]":
    """Return how n-grams become columns: one of two ways."""
    # Looked up here and not imported above: worker processes import this module, and need no scikit-learn.
    ngrams: dict[str, Any] = {"ngram_range": tuple(arguments.ngrams)} if arguments.ngrams else {}
    if not arguments.vocabulary:
        return dspectral.NgramHashing(n_features=1 << arguments.columns_bits, **ngrams), None
    return None, dspectral.VocabularySettings(
        min_df=arguments.min_document_frequency,
        max_df=arguments.max_document_frequency,
        max_features=arguments.max_features,
        **ngrams,
    )


def describe(run: "form.Run", store: "stores.CountStore", documents_per_second: float) -> None:
    """Add rows and plots."""
    from ._form.plots import new_plot  # noqa: PLC0415  Matplotlib is slow to import

    sizes = store.counts.chunks[0]
    metrics = {
        "rows": store.n_rows,
        "columns": store.n_columns,
        "nnz": store.nnz,
        "bytes": stored_bytes(run.arguments.store),
        "blocks": len(sizes),
        "documents_per_second": documents_per_second,
    }
    method = "vocabulary" if run.arguments.vocabulary else "hashing"
    run.rows(metrics, data=run.arguments.store, method=method)
    figure, axes = new_plot("Rows of each block", x="block", y="rows")
    axes.stairs(sizes, np.arange(len(sizes) + 1) - 0.5, fill=True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    run.plot("block_sizes", figure, "Rows of each block, in the order of the text.")
    figure, axes = new_plot("Documents with each column", x="column, most frequent first", y="documents", log="xy")
    axes.plot(*falling(store.document_frequency))
    run.plot("document_frequency", figure, "How many documents each column occurs in: words follow Zipf's law.")


def falling(frequencies: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ranks, evenly spread on a logarithmic axis, and the frequencies there, largest first.

    >>> ranks, values = falling(np.array([0, 2, 7]))
    >>> ranks.tolist(), values.tolist()
    ([1, 2], [7, 2])
    """
    ordered = np.sort(frequencies[frequencies > 0])[::-1]
    ranks = np.unique(np.geomspace(1, max(1, len(ordered)), POINTS).round().astype(np.int64))[: len(ordered)]
    return ranks, ordered[ranks - 1]


def stored_bytes(url: str) -> int:
    """Return what a store takes where it lies."""
    import fsspec  # noqa: PLC0415  slow to import

    file_system, path = fsspec.url_to_fs(url)
    return int(file_system.du(path))


if __name__ == "__main__":
    main()
