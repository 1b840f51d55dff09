"""The text in the records of jsonl and TSV files."""

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.store.lines import Piece, split_lines
from dspectral.types import Documents, IntArray

_SHOWN = 60
_SURROGATE = re.compile("[\ud800-\udfff]")


def json_texts(piece: Piece, field: str, errors: str) -> Documents:
    """Return a field of the records in some lines of JSON.

    Raises
    ------
    ValueError
        If a line, empty ones too, is not a JSON object with a string in the field.
    """
    lines = piece.data.decode().removesuffix("\n").split("\n")
    texts = []
    for number, line in enumerate(lines):
        try:
            texts.append(_json_text(line, field, errors))
        except (ValueError, RecursionError) as error:
            raise piece.line_error(number, str(error)) from error
    return Documents.of(texts)


def _json_text(line: str, field: str, errors: str) -> bytes:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from error
    if isinstance(record, dict) and isinstance(text := record.get(field), str):
        return _encoded(text, errors)
    raise ValueError(_why_no_text(record, field))


def _why_no_text(record: Any, field: str) -> str:
    if not isinstance(record, dict):
        return f"expected a JSON object with a string in {field!r}, not {_shown(record)}"
    if field not in record:
        return f"no field {field!r} in the record, but {_shown(list(record))}"
    return f"field {field!r} holds {_shown(record[field])}, not a string"


def _shown(value: Any) -> str:
    """Return the beginning of a value as JSON."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _encoded(text: str, errors: str) -> bytes:
    """Encode a text that may have half a surrogate pair, which JSON can escape and UTF-8 cannot hold."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        if errors == "replace":
            return _SURROGATE.sub("\ufffd", text).encode()
        raise ValueError("half a surrogate pair in the text; errors='replace' reads on") from error


def tsv_texts(piece: Piece, column: int, n_columns: int, *, with_header: bool) -> Documents:
    """Return a column of some lines of TSV, without a loop over lines.

    Raises
    ------
    ValueError
        If a line has another number of columns than the header: there is no quoting, so that a tab in a text
        would cut it.
    """
    lines = split_lines(piece.data)
    tabs = np.flatnonzero(lines.data == ord("\t"))
    found = np.diff(np.searchsorted(tabs, lines.offsets)) + 1
    if len(wrong := np.flatnonzero(found != n_columns)):
        what = f"{found[wrong[0]]} column(s), but the header has {n_columns}"
        raise piece.line_error(int(wrong[0]), what)
    between = tabs.reshape(lines.n_documents, n_columns - 1)
    starts = between[:, column - 1] + 1 if column else lines.offsets[:-1]
    stops = between[:, column] if column < n_columns - 1 else lines.offsets[1:]
    first = int(with_header)
    return _slices(lines.data, starts[first:], stops[first:])


def _slices(data: NDArray[np.uint8], starts: IntArray, stops: IntArray) -> Documents:
    """Return ``data[start:stop]`` of each pair; each begins where the one before stops, or behind it."""
    some = stops > starts
    steps = np.zeros(len(data) + 1, dtype=np.int8)
    steps[starts[some]] += 1
    steps[stops[some]] -= 1
    offsets = np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int64)
    return Documents(data[np.cumsum(steps[:-1], dtype=np.int8).view(bool)], offsets)
