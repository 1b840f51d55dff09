"""Read labeled texts from records."""

import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np

from dspectral.parameters import check_option
from dspectral.store.from_text.lines import MISSING
from dspectral.store.from_text.readers import read_records
from dspectral.types import is_missing

_WRITTEN_LABEL = re.compile(r"""'([^'\\]*)'|"([^"\\]*)"|([+-]?[0-9.]+|True|False)""")
_WRITTEN_LIST = re.compile(rf"\[\s*(?:(?:{_WRITTEN_LABEL.pattern})(?:[,\s]+|(?=\])))*\]")
"""A list as pandas writes it into a cell: ``"['cat', 'animal']"``, or of an array ``"['cat' 'animal']"``."""


class LabeledText(NamedTuple):
    """A document and its labels.

    Attributes
    ----------
    text : str
        Text of the document.
    labels : tuple of str
        Labels, possibly none.
    """

    text: str
    labels: tuple[str, ...]


def read_labeled_records(
    path: str | PathLike[str],
    *,
    text: Sequence[str] = ("text",),
    label: str = "label",
    missing: Literal["error", "empty", "skip"] = "empty",
    storage_options: dict[str, Any] | None = None,
) -> Iterator[LabeledText]:
    r"""Yield labeled texts from the records of JSON Lines, CSV, TSV or Parquet files.

    Parameters
    ----------
    path : str or path-like
        Local path, folder, pattern or fsspec URL, as for :func:`dspectral.build_store`.
    text : sequence of str, default=("text",)
        Fields of the text, joined by newlines; of several fields, null ones are empty.
    label : str, default="label"
        Field with the label: a string, a number or a boolean or a list of these, also one that pandas has written
        into a cell as ``"['tea', 'food']"``. Labels are
        equal across formats: 1, 1.0 and "1" become ``"1"``; true and "true" become ``"True"``. A document whose label
        is null, NaN or empty has no label.
    missing : {"error", "empty", "skip"}, default="empty"
        Treatment of a record whose texts are all null, as for :func:`dspectral.build_store`.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabeledText
        Document and labels of each record, in file order.

    Raises
    ------
    ValueError
        If the format is unknown, or a line is not a UTF-8 record with these fields; the message names the line.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two.jsonl", "w") as file:
    ...     _ = file.write('{"text": "hot tea", "label": ["tea", "food"]}\n{"text": "ice", "label": "food"}\n')
    >>> [document.labels for document in read_labeled_records("memory://two.jsonl")]
    [('tea', 'food'), ('food',)]
    """
    check_option("missing", missing, ("error", "empty", "skip"))
    text = (text,) if isinstance(text, str) else tuple(text)
    for location, record in read_records(path, (*text, label), storage_options or {}):
        try:
            parts = [_get_text(record, field) for field in text]
            if not any(part is not None for part in parts) and missing != "empty":
                if missing == "skip":
                    continue
                raise ValueError(f"field {text[0]!r} has no text; {MISSING}")  # noqa: TRY301
            labels = _get_labels(record, label)
        except ValueError as error:
            raise ValueError(f"{location}: {error}") from error
        yield LabeledText("\n".join(part or "" for part in parts), labels)


def label_name(value: object) -> str | None:
    """Return the normalized name of a label, or None for a missing label.

    >>> [label_name(value) for value in ("tea", 1, 1.0, "1.0", True, "true", "", float("nan"))]
    ['tea', '1', '1', '1', 'True', 'True', None, None]
    """
    if is_missing(value):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"label {value} must be a string, a finite number or a boolean")
    if not isinstance(value, str | int | float | Decimal):
        raise ValueError(f"label {value!r:.60} must be a string, a number or a boolean")  # noqa: TRY004
    name = re.sub(r"^([+-]?[0-9]+)\.0*$", r"\1", str(value))
    if not name.strip():
        return None
    return name.capitalize() if name.lower() in ("true", "false") else name


def _get_text(record: dict[str, Any], field: str) -> str | None:
    value = record[field]
    if not isinstance(value, str) and not is_missing(value):
        raise ValueError(f"field {field!r} is {value!r:.60}, but must be a string")
    return None if is_missing(value) else str(value)


def _get_labels(record: dict[str, Any], field: str) -> tuple[str, ...]:
    # A single label equals a list of one; an empty list means no labels.
    value = record[field]
    if isinstance(value, str) and _WRITTEN_LIST.fullmatch(value):
        value = [quoted[0] or quoted[1] or quoted[2] for quoted in _WRITTEN_LABEL.findall(value)]
    is_list = isinstance(value, list | tuple)
    names = [label_name(item) for item in (value if is_list else [value])]
    if is_list and None in names:
        raise ValueError(f"field {field!r} is {value!r:.60}, but a list of labels must have no missing ones")
    return tuple(name for name in names if name is not None)
