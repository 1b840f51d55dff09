"""Lines of labels and ``column:value`` pairs to two sparse matrices."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled

MOST_COLUMNS = 2**31 - 1
"""Most columns and labels of a matrix: their numbers are int32."""
ERRORS = {
    1: "a label is not a whole number of 0 or more",
    2: "a column is not a whole number",
    3: "a column has no value: 'column:value' is needed",
    4: "a value is not a finite number",
    5: "a column is below the first one",
}
"""What is wrong with a line, by its code."""


class ParsedLines(NamedTuple):
    """What some lines hold.

    Attributes
    ----------
    rows : csr_array of float32, shape (n, d)
    labels : csr_array of float32, shape (n, L)
        Ones.
    """

    rows: sparse.csr_array
    labels: sparse.csr_array


class LineError(ValueError):
    """A line that cannot be read: ``line`` is its number in the piece, from 0."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def parse_lines(
    data: bytes, *, n_columns: int = 0, n_labels: int = 0, first_column: int = 0, skip_empty: bool = False
) -> ParsedLines:
    r"""Parse lines of ``label,label,... column:value column:value ...``.

    Parameters
    ----------
    data : bytes
        Whole lines. What follows ``#`` is a comment; ``qid:`` pairs are skipped.
    n_columns, n_labels : int
        Width of the matrices; 0 for what the lines need.
    first_column : int
        Number of the first column in the text: 0 or 1.
    skip_empty : bool
        Whether a line with nothing on it is no row.

    Returns
    -------
    ParsedLines
        Columns sorted, those that are given twice added up.

    Raises
    ------
    LineError
        If a line cannot be read, or a column or label is beyond the width.

    Notes
    -----
    About 12 bytes for each byte of the text at most, usually less than two.

    Examples
    --------
    >>> parsed = parse_lines(b"0,2 1:0.5 0:1e1\n 1:2\n")
    >>> parsed.rows.toarray(), parsed.labels.toarray()
    (array([[10. ,  0.5],
           [ 0. ,  2. ]], dtype=float32), array([[1., 0., 1.],
           [0., 0., 0.]], dtype=float32))
    """
    text = np.frombuffer(data if data.endswith(b"\n") or not data else data + b"\n", dtype=np.uint8)
    n_lines, n_pairs = int(np.sum(text == 10)), int(np.sum(text == 58))
    n_names = n_lines + int(np.sum(text == 44))
    columns, values = np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs)
    names = np.empty(n_names, dtype=np.int64)
    indptr, label_indptr = np.zeros(n_lines + 1, dtype=np.int64), np.zeros(n_lines + 1, dtype=np.int64)
    lines = np.zeros(n_lines, dtype=np.int64)
    code, line, n_rows = _parse(
        text, columns, values, indptr, names, label_indptr, lines, first_column, skip_empty
    )
    if code:
        raise LineError(line, ERRORS[code])
    indptr, label_indptr = indptr[: n_rows + 1], label_indptr[: n_rows + 1]
    columns, values, names = columns[: indptr[-1]], values[: indptr[-1]], names[: label_indptr[-1]]
    _check_width(columns, indptr, lines, n_columns, "column", first_column)
    _check_width(names, label_indptr, lines, n_labels, "label", 0)
    rows = _matrix(values.astype(np.float32), columns, indptr, n_columns)
    labels = _matrix(np.ones(len(names), dtype=np.float32), names, label_indptr, n_labels)
    labels.data[:] = 1
    return ParsedLines(rows, labels)


def _check_width(
    columns: NDArray[np.int64],
    indptr: NDArray[np.int64],
    lines: NDArray[np.int64],
    width: int,
    what: str,
    first: int,
) -> None:
    if not width or columns.max(initial=-1) < width:
        return
    entry = int(np.argmax(columns >= width))
    line = int(lines[np.searchsorted(indptr, entry, side="right") - 1])
    raise LineError(line, f"{what} {columns[entry] + first} is beyond the last one, {width - 1 + first}")


def _matrix(
    values: NDArray[np.float32], columns: NDArray[np.int64], indptr: NDArray[np.int64], width: int
) -> sparse.csr_array:
    shape = (len(indptr) - 1, width or int(columns.max(initial=-1)) + 1)
    matrix = sparse.csr_array((values, columns.astype(np.int32), indptr.astype(np.int32)), shape=shape)
    matrix.sum_duplicates()
    return matrix


@compiled
def _parse(
    text: Any,
    columns: Any,
    values: Any,
    indptr: Any,
    names: Any,
    label_indptr: Any,
    lines: Any,
    first_column: int,
    skip_empty: bool,
) -> tuple[int, int, int]:
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
def _labels(text: Any, at: int, names: Any, n_names: int) -> tuple[int, int, int]:
    """Read numbers between commas up to a blank; a number before a colon is a column, and read later."""
    start = at
    if _ends_word(text[at]) or text[at] == 35:
        return 0, at, n_names
    first = n_names
    while True:
        at += text[at] == 43  # +
        if not _is_digit(text[at]):
            return (0, start, first) if text[start] == 113 else (1, start, first)  # qid:
        number, at = _whole(text, at)
        if text[at] == 58:
            return (0, start, first) if n_names == first else (1, start, first)
        if text[at] == 46:  # 1.0 is a whole number
            at += 1
            while text[at] == 48:
                at += 1
        names[n_names] = number
        n_names += 1
        if text[at] != 44:
            break
        at += 1
    return (0 if _ends_word(text[at]) else 1), at, n_names


@compiled
def _pairs(
    text: Any, at: int, columns: Any, values: Any, n_pairs: int, first_column: int
) -> tuple[int, int, int]:
    """Read pairs up to the end of the line, and past it."""
    while True:
        at = _next_word(text, at)
        if text[at] == 10:
            return 0, at + 1, n_pairs
        if not _is_digit(text[at]):
            return 2, at, n_pairs
        number, at = _whole(text, at)
        if text[at] != 58:
            return (3 if _ends_word(text[at]) else 2), at, n_pairs
        value, at = _real(text, at + 1)
        if not np.isfinite(value) or not (_ends_word(text[at]) or text[at] == 35):
            return 4, at, n_pairs
        if number < first_column:
            return 5, at, n_pairs
        columns[n_pairs], values[n_pairs] = number - first_column, value
        n_pairs += 1


@compiled
def _next_word(text: Any, at: int) -> int:
    """Skip blanks, ``qid:`` pairs and a comment, which ends where its line does."""
    while True:
        while text[at] != 10 and _ends_word(text[at]):
            at += 1
        if text[at] == 35:  # #
            while text[at] != 10:
                at += 1
        elif text[at] == 113:  # q
            while not _ends_word(text[at]):
                at += 1
            continue
        return at


@compiled
def _whole(text: Any, at: int) -> tuple[int, int]:
    number = 0
    while _is_digit(text[at]):
        if number < 1 << 40:
            number = number * 10 + int(text[at]) - 48
        at += 1
    return number, at


@compiled
def _real(text: Any, at: int) -> tuple[float, int]:
    """Read a decimal number; NaN where there is none."""
    sign = -1.0 if text[at] == 45 else 1.0
    at += text[at] == 45 or text[at] == 43
    number, scale, digits = 0.0, 0, 0
    while _is_digit(text[at]):
        number, digits, at = number * 10.0 + (text[at] - 48.0), digits + 1, at + 1
    if text[at] == 46:
        at += 1
        while _is_digit(text[at]):
            number, scale, digits, at = number * 10.0 + (text[at] - 48.0), scale - 1, digits + 1, at + 1
    if digits == 0:
        return np.nan, at
    if text[at] == 101 or text[at] == 69:  # e, E
        negative = text[at + 1] == 45
        at += 1 + (text[at + 1] == 45 or text[at + 1] == 43)
        if not _is_digit(text[at]):
            return np.nan, at
        exponent, at = _whole(text, at)
        scale += -exponent if negative else exponent
    if scale < 0:
        return sign * (number / 10.0 ** min(-scale, 400)), at
    return sign * number * 10.0 ** min(scale, 400), at


@compiled
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@compiled
def _ends_word(byte: int) -> bool:
    return byte in (9, 10, 13, 32)
