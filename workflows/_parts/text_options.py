"""Options of the programs that read text: how it is read, in the words of `build_store` and `build_corpus`."""

import argparse
import gzip
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspectral

from .._form import form

if TYPE_CHECKING:
    from dspectral.store import Corpus

LABELED_FILES = "jsonl, CSV, TSV or Parquet, .sgm files of Reuters-21578, or a folder for each label"
INTENT_METHODS = ("auto", "sent", "sketch", "idf", "idf+sent", "sent+", "characters")
"""Methods that use unlabeled text; `sent`, `sent+` and `characters` are always fitted."""
UNITS = ("line", "file", "field", "record")
NAMES = (
    "unit",
    "field",
    "encoding",
    "delimiter",
    "errors",
    "max_document_bytes",
    "long_documents",
    "missing",
    "format",
)
"""Options that are arguments of the same names."""


def add_text_options(parser: form.Parser, unit: str) -> None:
    """Add the options."""
    by_default = {
        "document": "line of a txt file, field of a record",
        "sentence": "line, of a file as of a record's field",
    }
    parser.check = partial(check_sources, parser)
    add = parser.add_argument_group("how the text is read").add_argument
    add("--unit", choices=UNITS, help=f"what a {unit} is (default: {by_default[unit]})")
    about = "column or key that holds the text of jsonl, csv, tsv and Parquet files (default: no fields)"
    add("--field", metavar="NAME", help=about)
    add("--encoding", default="utf-8", metavar="NAME", help="such as latin-1, cp1252 or utf-16")
    about = "between the fields of csv files (default: the first of , ; tab | under which --field is a column)"
    add("--delimiter", metavar="CHAR", help=about)
    about = "bytes that cannot be decoded: an error, or U+FFFD"
    add("--errors", choices=("strict", "replace"), default="strict", help=about)
    about = f"most bytes of a {unit}, a line or a file for instance"
    add("--max-document-bytes", type=int, default=16 << 20, metavar="N", help=about)
    about = f"a longer {unit}: an error, read as empty, or its beginning"
    add("--long-documents", choices=("error", "skip", "truncate"), default="error", help=about)
    about = "a text that is null: an error, an empty text, or none (default: error, with --errors replace empty)"
    add("--missing", choices=("error", "empty", "skip"), help=about)
    about = "of all files (default: what the ending says, or the content)"
    add("--format", choices=("txt", "jsonl", "csv", "tsv", "parquet"), help=about)


def add_label_options(parser: form.Parser) -> None:
    """Add the options that say where text and labels are, and which of them count."""
    add = parser.add_argument
    fields = "with the text, if there are fields"
    add("--text", nargs="+", default=["text"], metavar="FIELD", help=fields)
    label = "with the label, or (in jsonl and Parquet) a list of them"
    add("--label", default="label", metavar="FIELD", help=label)
    add("--min-documents", type=form.positive, default=2, metavar="N", help="do not learn labels with fewer")
    terms = "most frequent terms that are kept"
    add("--terms", type=form.positive, default=8000, metavar="D", help=terms)


def add_intent_options(parser: form.Parser) -> None:
    """Add the options other than paths."""
    add = parser.add_argument
    add("--shares", nargs="+", type=form.share, default=[1.0], metavar="S", help="of the unlabeled text")
    add("--labelled", type=form.positive, metavar="N", help="labelled sentences an intent (default: all)")
    add("--draws", type=form.positive, default=1, metavar="R", help="random draws of the N")
    about = "method whose model is saved (default: sent); auto takes the best in cross-validation"
    add("--method", choices=INTENT_METHODS, default="sent", help=about)
    add("--n-components", type=form.positive, default=200, metavar="K", help="components of a word's vector")
    add("--columns-bits", type=form.bits, default=18, metavar="B", help="hash to 2^B columns")


def add_corpus_options(parser: form.Parser) -> None:
    """Add the options of :func:`read_corpus` but for those of the text, which stand behind a program's own."""
    add = parser.add_argument
    add("--corpus", nargs="+", required=True, metavar="FILE", help="text: files, folders, patterns, or URLs")
    add("--min-count", type=form.positive, default=11, metavar="C", help="rarer words are one type")
    about = "how lines are cut: at blanks, if they were before"
    add("--tokens", choices=["blanks", "words"], default="blanks", help=about)
    add("--lowercase", action="store_true", help="lower the case first")


def read_corpus(arguments: argparse.Namespace, path: str) -> "Corpus":
    """Count and number the words of a text."""
    settings = {name: getattr(arguments, name) for name in ("min_count", "lowercase", "tokens")}
    return dspectral.build_corpus(arguments.corpus, path, **settings, **reading(arguments))


def check_sources(parser: form.Parser, arguments: argparse.Namespace) -> None:
    """End the program if a local file is missing, or holds records and there is no ``--field``."""
    for source in arguments.text if "text" in arguments else arguments.corpus:
        path = Path(source).expanduser()
        if "://" in source or any(sign in source for sign in "*?["):
            continue
        if not path.exists():
            target = f" is a link to {path.readlink()}, which" if path.is_symlink() else ""
            parser.error(f"{source}{target} does not exist")
        is_checked = arguments.field is None and arguments.format is None and path.is_file()
        if is_checked and (columns := _read_columns(path, arguments.encoding)):
            parser.error(f"{source} holds records: --field must name a column ({', '.join(columns)})")


def _read_columns(path: Path, encoding: str) -> list[str]:
    """Return the names of the fields of a jsonl, csv or tsv file, empty for other files."""
    *_, ending = path.name.removesuffix(".gz").split(".")
    if ending not in ("csv", "tsv", "jsonl", "ndjson"):
        return []
    try:
        with gzip.open(path, "rt", encoding=encoding) if path.suffix == ".gz" else path.open(encoding=encoding) as file:
            line = file.readline(1 << 20).strip()
        if ending in ("jsonl", "ndjson"):
            return list(json.loads(line))
    except (OSError, ValueError, LookupError):
        return []
    separator = "\t" if ending == "tsv" else max(",;\t|", key=line.count)
    return [name.strip(' "') for name in line.split(separator)]


def reading(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options as arguments of `build_store` and `build_corpus`.

    >>> parser = argparse.ArgumentParser()
    >>> add_text_options(parser, "document")
    >>> read = reading(parser.parse_args(["--field", "body", "--delimiter", ";"]))
    >>> read["field"], read["errors"], read["max_document_bytes"]
    ('body', 'strict', 16777216)
    """
    return {name: getattr(arguments, name) for name in NAMES}
