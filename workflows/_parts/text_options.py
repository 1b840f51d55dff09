"""Options of the programs that read text: how it is read, in the words of `build_store` and `build_corpus`."""

import argparse
from typing import Any

UNITS = ("line", "file", "field")
NAMES = ("unit", "field", "encoding", "delimiter", "errors", "max_document_bytes", "long_documents")
"""Options that are arguments of the same names."""


def add_text_options(parser: argparse.ArgumentParser, unit: str) -> None:
    """Add the options."""
    by_default = {
        "document": "line of a txt file, field of a record",
        "sentence": "line, of a file as of a record's field",
    }
    add = parser.add_argument_group("how the text is read").add_argument
    add("--unit", choices=UNITS, help=f"what a {unit} is (default: {by_default[unit]})")
    add(
        "--field",
        metavar="NAME",
        help="column or key that holds the text of jsonl, csv, tsv and Parquet files (default: no fields)",
    )
    add("--encoding", default="utf-8", metavar="NAME", help="such as latin-1, cp1252 or utf-16")
    add(
        "--delimiter",
        metavar="CHAR",
        help="between the fields of csv files (default: the first of , ; tab | under which --field is a column)",
    )
    add(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="bytes that cannot be decoded: an error, or U+FFFD",
    )
    add(
        "--max-document-bytes",
        type=int,
        default=16 << 20,
        metavar="N",
        help=f"most bytes of a {unit}, a line or a file for instance",
    )
    add(
        "--long-documents",
        choices=("error", "skip", "truncate"),
        default="error",
        help=f"a longer {unit}: an error, read as empty, or its beginning",
    )


def reading(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options as arguments of `build_store` and `build_corpus`.

    >>> parser = argparse.ArgumentParser()
    >>> add_text_options(parser, "document")
    >>> read = reading(parser.parse_args(["--field", "body", "--delimiter", ";"]))
    >>> read["field"], read["errors"], read["max_document_bytes"]
    ('body', 'strict', 16777216)
    """
    return {name: getattr(arguments, name) for name in NAMES}
