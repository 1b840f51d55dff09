"""Options of the programs that read text: how it is read, in the words of `build_store` and `build_corpus`."""

import argparse
from typing import Any

UNITS = ("line", "file", "field")


def add_text_options(parser: argparse.ArgumentParser, unit: str) -> None:
    """Add the options.

    Parameters
    ----------
    parser : ArgumentParser
        The parser of the program.
    unit : str
        What a piece of text is called there: a document or a sentence.
    """
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
    add(
        "--encoding",
        default="utf-8",
        metavar="NAME",
        help="such as latin-1, cp1252 or utf-16",
    )
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


def reading(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options as arguments of `build_store` and `build_corpus`.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_text_options(parser, "document")
    >>> reading(parser.parse_args(["--field", "body", "--delimiter", ";"]))
    {'unit': None, 'field': 'body', 'encoding': 'utf-8', 'delimiter': ';', 'errors': 'strict'}
    """
    return {name: getattr(arguments, name) for name in ("unit", "field", "encoding", "delimiter", "errors")}
