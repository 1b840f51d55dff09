"""Lines of labels and ``column:value`` pairs to two sparse matrices."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.store.blocks import stored_entries
from dspectral.store.from_text.lines import Piece
from dspectral.types import CSRRows, FloatArray

TAB, NEWLINE, RETURN, SPACE, PLUS, MINUS, POINT = b"\t\n\r +-."
CAPITAL_E, SMALL_E = b"Ee"
Text: TypeAlias = NDArray[np.uint8]


@compiled
def whole_number(text: Text, at: int) -> tuple[int, int]:
    """Read a whole number; return it and the next byte. Beyond 2**40 it is only known to be too large."""
    number = 0
    while is_digit(text[at]):
        if number < 1 << 40:
            number = number * 10 + int(text[at]) - 48
        at += 1
    return number, at


@compiled
def real_number(text: Text, at: int) -> tuple[float, int]:
    """Read a decimal number, NaN where there is none, and the next byte; float32 is right to the last bit but one."""
    sign = -1.0 if text[at] == MINUS else 1.0
    at += int(text[at] == MINUS or text[at] == PLUS)
    # Digits are gathered in float64 and not in an integer, which a long number would overflow. Powers of ten end at
    # 400, where they are infinite already.
    number, scale, digits = 0.0, 0, 0
    while is_digit(text[at]):
        number, digits, at = number * 10.0 + (text[at] - 48.0), digits + 1, at + 1
    if text[at] == POINT:
        at += 1
        while is_digit(text[at]):
            number, scale, digits, at = number * 10.0 + (text[at] - 48.0), scale - 1, digits + 1, at + 1
    if digits == 0:
        return np.nan, at
    if text[at] == SMALL_E or text[at] == CAPITAL_E:
        negative = text[at + 1] == MINUS
        at += 1 + int(text[at + 1] == MINUS or text[at + 1] == PLUS)
        if not is_digit(text[at]):
            return np.nan, at
        exponent, at = whole_number(text, at)
        scale += -exponent if negative else exponent
    if scale < 0:
        return sign * (number / 10.0 ** min(-scale, 400)), at
    # Zero stays zero, where a power that is infinite would make it no number.
    return sign * number * (10.0 ** min(scale, 400) if number else 1.0), at


@compiled
def is_digit(byte: np.uint8) -> bool:
    """Report whether a byte is one of 0 to 9."""
    return bool(48 <= byte <= 57)


@compiled
def ends_word(byte: np.uint8) -> bool:
    """Report whether a byte is a blank, a tab or the end of a line."""
    return byte in (TAB, NEWLINE, RETURN, SPACE)


MOST_COLUMNS = 2**31 - 1
"""Most columns and labels of a matrix: their numbers are int32."""
ERRORS = {
    1: "a label is not a whole number of 0 or more; svmlight alone may have -1, beside +1",
    2: "a column is not a whole number",
    3: "a column has no value: 'column:value' is needed",
    4: "a value is not a finite number",
    5: "a column is below the first one",
    6: f"a label is beyond {MOST_COLUMNS - 1}, the largest that a matrix can have",
    7: f"a column is beyond {MOST_COLUMNS - 1}, the largest that a matrix can have",
    8: "a value is out of range: float32 holds numbers up to 3.4e38",
}
"""Sentence for each error code of the loops below; 0 is none."""
NEWLINE, HASH, PLUS, COMMA, COLON, SMALL_Q = b"\n#+,:q"
INFINITE = 2.0**128 - 2.0**103
"""Smallest number that float32 rounds to infinity."""
Numbers: TypeAlias = NDArray[np.int64]


class ParsedLines(NamedTuple):
    """Rows and labels of some lines."""

    rows: CSRRows
    labels: CSRRows


def parse_lines(
    piece: Piece, *, n_columns: int = 0, n_labels: int = 0, first_column: int = 0, skip_empty: bool = False
) -> ParsedLines:
    r"""Parse lines of ``label,label,... column:value column:value ...``; the one that cannot be read is named.

    One pass over the bytes. Memory is at most 12 bytes for each byte of the text, usually less than two.

    >>> parsed = parse_lines(Piece(b"0,2 1:0.5 0:1e1\n 1:2\n", "a.txt", 0, 1))
    >>> parsed.rows.toarray(), parsed.labels.toarray()
    (array([[10. ,  0.5],
           [ 0. ,  2. ]], dtype=float32), array([[1., 0., 1.],
           [0., 0., 0.]], dtype=float32))
    """
    # The loops look one byte ahead without asking for the end: the last byte is always a line end.
    data = piece.data
    text = np.frombuffer(data if data.endswith(b"\n") or not data else data + b"\n", dtype=np.uint8)
    # Each pair has a colon, and each label a comma or a line end behind it: that bounds the arrays.
    n_lines, n_pairs = int(np.sum(text == NEWLINE)), int(np.sum(text == COLON))
    n_names = n_lines + int(np.sum(text == COMMA))
    columns, values = np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs)
    names = np.empty(n_names, dtype=np.int64)
    indptr, label_indptr = np.zeros(n_lines + 1, dtype=np.int64), np.zeros(n_lines + 1, dtype=np.int64)
    lines = np.zeros(n_lines, dtype=np.int64)
    code, line, n_rows = _parse(
        text, columns, values, indptr, names, label_indptr, lines, first_column, skip_empty
    )
    if code:
        raise ValueError(f"{piece.place_of_line(line)}: {ERRORS[code]}")
    indptr, label_indptr = indptr[: n_rows + 1], label_indptr[: n_rows + 1]
    columns, values, names = columns[: indptr[-1]], values[: indptr[-1]], names[: label_indptr[-1]]
    _map_classes(piece, names, lines, label_indptr, allowed=skip_empty)
    _check_width(piece, columns, lines, indptr, n_columns, "column", first_column)
    _check_width(piece, names, lines, label_indptr, n_labels, "label", 0)
    rows = _build_csr(values, columns, indptr, n_columns)
    rows.data = stored_entries(rows.data, piece.place(0))
    rows.eliminate_zeros()  # a column of 0 says that there is a document, and no more
    labels = _build_csr(np.ones(len(names), dtype=np.float32), names, label_indptr, n_labels)
    # A label that is given twice was added up to 2, but a row has a label or has it not.
    labels.data[:] = 1
    return ParsedLines(rows, labels)


def _map_classes(piece: Piece, names: Numbers, lines: Numbers, indptr: Numbers, *, allowed: bool) -> None:
    """Make classes of -1 and +1 the labels 0 and 1; refuse -1 beside other labels, or where it is no class."""
    if names.min(initial=0) == 0:
        return
    wrong = np.flatnonzero(np.abs(names) != 1 if allowed else names < 0)
    if len(wrong):
        line = int(lines[np.searchsorted(indptr, wrong[0], side="right") - 1])
        detail = f": {names[wrong[0]]} stands in a file with labels of -1" if allowed else ""
        raise ValueError(f"{piece.place_of_line(line)}: {ERRORS[1]}{detail}")
    names[names < 0] = 0


def _check_width(
    piece: Piece, columns: Numbers, lines: Numbers, indptr: Numbers, width: int, kind: str, first: int
) -> None:
    if not width or columns.max(initial=-1) < width:
        return
    entry = int(np.argmax(columns >= width))
    line = int(lines[np.searchsorted(indptr, entry, side="right") - 1])
    raise ValueError(
        f"{piece.place_of_line(line)}: {kind} {columns[entry] + first} is beyond the last one, {width - 1 + first}"
    )


def _build_csr(values: FloatArray, columns: Numbers, indptr: Numbers, width: int) -> CSRRows:
    shape = (len(indptr) - 1, width or int(columns.max(initial=-1)) + 1)
    matrix = sparse.csr_array((values, columns.astype(np.int32), indptr.astype(np.int32)), shape=shape)
    matrix.sum_duplicates()
    return matrix


@compiled
def _parse(
    text: Text,
    columns: Numbers,
    values: NDArray[np.float64],
    indptr: Numbers,
    names: Numbers,
    label_indptr: Numbers,
    lines: Numbers,
    first_column: int,
    skip_empty: bool,
) -> tuple[int, int, int]:
    """Write rows and labels in CSR layout; return an error code, its line, and the number of rows.

    ``at`` is always the beginning of line ``line``; rows before ``row`` are complete. The cost is one look at each
    byte, but for a first number that turns out to be a column, which is read twice.
    """
    # Pairs and labels of row i are those from indptr[i] and label_indptr[i] on; both counters only grow.
    at, line, row, n_pairs, n_names = 0, 0, 0, 0, 0
    while at < text.size:
        before = n_pairs + n_names
        code, at, n_names = _labels(text, at, names, n_names)
        if code == 0:
            code, at, n_pairs = _pairs(text, at, columns, values, n_pairs, first_column)
        if code:
            return code, line, row
        if n_pairs + n_names > before or not skip_empty:
            lines[row] = line
            row += 1
            indptr[row], label_indptr[row] = n_pairs, n_names
        line += 1
    return 0, 0, row


@compiled
def _labels(text: Text, at: int, names: Numbers, n_names: int) -> tuple[int, int, int]:
    """Read numbers between commas up to a blank; return an error code, the next byte, and the number of labels.

    A number before a colon is a column, and ``q`` begins a ``qid:`` pair: both are left to be read as pairs, so the
    line has no label.
    """
    # Invariant: names[first:n_names] are the labels of this line before `at`. A column where a label is expected gives
    # the line back from `start` on, and returns `first`, which forgets them.
    start = at
    if ends_word(text[at]) or text[at] == HASH:
        return 0, at, n_names
    first = n_names
    while True:
        negative = text[at] == MINUS
        at += int(negative or text[at] == PLUS)
        if not is_digit(text[at]):
            return (0, start, first) if text[start] == SMALL_Q else (1, start, first)
        number, at = whole_number(text, at)
        if negative and number != 1:
            return 1, start, first
        if text[at] == COLON:
            return (0, start, first) if n_names == first else (1, start, first)
        if text[at] == POINT:  # 1.0 is a whole number
            at += 1
            while text[at] == 48:
                at += 1
        if number >= MOST_COLUMNS:
            return 6, start, first
        names[n_names] = -1 if negative else number
        n_names += 1
        if text[at] != COMMA:
            break
        at += 1
    return (0 if ends_word(text[at]) else 1), at, n_names


@compiled
def _pairs(
    text: Text, at: int, columns: Numbers, values: NDArray[np.float64], n_pairs: int, first_column: int
) -> tuple[int, int, int]:
    """Read pairs up to the end of the line; return an error code, the next line, and the number of pairs."""
    # Invariant: columns[:n_pairs] and values[:n_pairs] are the pairs before `at`. A number is checked before it is
    # written, so that what is written always fits its matrix; the cost is one look at each byte.
    while True:
        at = _next_word(text, at)
        if text[at] == NEWLINE:
            return 0, at + 1, n_pairs
        if not is_digit(text[at]):
            return 2, at, n_pairs
        number, at = whole_number(text, at)
        if text[at] != COLON:
            return (3 if ends_word(text[at]) else 2), at, n_pairs
        value, at = real_number(text, at + 1)
        if np.isnan(value) or not (ends_word(text[at]) or text[at] == HASH):
            return 4, at, n_pairs
        number -= first_column
        if number < 0 or number >= MOST_COLUMNS or abs(value) >= INFINITE:
            return (5 if number < 0 else 7 if number >= MOST_COLUMNS else 8), at, n_pairs
        columns[n_pairs], values[n_pairs] = number, value
        n_pairs += 1


@compiled
def _next_word(text: Text, at: int) -> int:
    """Skip blanks, ``qid:`` pairs and a comment, which ends where its line does."""
    while True:
        while text[at] != NEWLINE and ends_word(text[at]):
            at += 1
        if text[at] == HASH:
            while text[at] != NEWLINE:
                at += 1
        elif text[at] == SMALL_Q:
            while not ends_word(text[at]):
                at += 1
            continue
        return at
