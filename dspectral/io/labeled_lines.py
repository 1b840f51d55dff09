"""Parse lines of labels and ``column:value`` pairs into two sparse matrices."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.store.blocks import to_stored_dtype
from dspectral.store.from_text.lines import LineChunk
from dspectral.types import CSRRows, FloatArray

TAB, NEWLINE, RETURN, SPACE, PLUS, MINUS, POINT = b"\t\n\r +-."
CAPITAL_E, SMALL_E = b"Ee"
Text: TypeAlias = NDArray[np.uint8]


@compiled
def read_integer(text: Text, at: int) -> tuple[int, int]:
    """Read a nonnegative integer; return it, capped above 2**40, and the next position."""
    number = 0
    while is_digit(text[at]):
        if number < 1 << 40:
            number = number * 10 + int(text[at]) - 48
        at += 1
    return number, at


@compiled
def read_decimal(text: Text, at: int) -> tuple[float, int]:
    """Read a decimal number to 1 ulp of float32; return it, or NaN if there is none, and the next position."""
    sign = -1.0 if text[at] == MINUS else 1.0
    at += int(text[at] == MINUS or text[at] == PLUS)
    # float64 accumulates the digits, since a long number would overflow an integer. Powers of ten beyond 400 are
    # infinite anyway.
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
        exponent, at = read_integer(text, at)
        scale += -exponent if negative else exponent
    if scale < 0:
        return sign * (number / 10.0 ** min(-scale, 400)), at
    # Keep 0: 0 * inf is NaN.
    return sign * number * (10.0 ** min(scale, 400) if number else 1.0), at


@compiled
def is_digit(byte: np.uint8) -> bool:
    """Return whether a byte is an ASCII digit."""
    return bool(48 <= byte <= 57)


@compiled
def ends_word(byte: np.uint8) -> bool:
    """Return whether a byte is a space, a tab or a line break."""
    return byte in (TAB, NEWLINE, RETURN, SPACE)


MAX_COLUMNS = 2**31 - 1
"""Maximum number of columns and labels, whose indices are int32."""
ERRORS = {
    1: "a label must be an integer of at least 0, or -1 and +1 in svmlight",
    2: "a column must be an integer",
    3: "a column has no value, but must be written as 'column:value'",
    4: "a value must be a finite number",
    5: "a column is smaller than the first one: check zero_based",
    6: f"a label must be at most {MAX_COLUMNS - 1}",
    7: f"a column must be at most {MAX_COLUMNS - 1}",
    8: "a value must be within the range of float32, 3.4e38",
}
"""Messages of the error codes of the kernels below; 0 means no error."""
NEWLINE, HASH, PLUS, COMMA, COLON, SMALL_Q = b"\n#+,:q"
INFINITE = 2.0**128 - 2.0**103
"""Smallest number that rounds to infinity in float32."""
Numbers: TypeAlias = NDArray[np.int64]


class ParsedLines(NamedTuple):
    """Rows and labels of a chunk of lines."""

    rows: CSRRows
    labels: CSRRows


def parse_lines(
    piece: LineChunk,
    *,
    n_columns: int = 0,
    n_labels: int = 0,
    first_column: int = 0,
    skip_empty: bool = False,
) -> ParsedLines:
    r"""Parse lines of ``label,label,... column:value column:value ...``; errors name the line.

    One pass over the bytes. Memory: at most 12 bytes per byte of the text, usually less than two.

    >>> parsed = parse_lines(LineChunk(b"0,2 1:0.5 0:1e1\n 1:2\n", "a.txt", 0, 1))
    >>> parsed.rows.toarray(), parsed.labels.toarray()
    (array([[10. ,  0.5],
           [ 0. ,  2. ]], dtype=float32), array([[1., 0., 1.],
           [0., 0., 0.]], dtype=float32))
    """
    # The kernels read one byte ahead without bounds checks, so the text must end with a line break.
    data = piece.data
    text = np.frombuffer(data if data.endswith(b"\n") or not data else data + b"\n", dtype=np.uint8)
    # Each pair has a colon, and each label is followed by a comma or a line break: this bounds the arrays.
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
        raise ValueError(f"{piece.describe_line(line)}: {ERRORS[code]}")
    indptr, label_indptr = indptr[: n_rows + 1], label_indptr[: n_rows + 1]
    columns, values, names = columns[: indptr[-1]], values[: indptr[-1]], names[: label_indptr[-1]]
    _map_classes(piece, names, lines, label_indptr, allowed=skip_empty)
    _check_width(piece, columns, lines, indptr, n_columns, "column", first_column)
    _check_width(piece, names, lines, label_indptr, n_labels, "label", 0)
    rows = _build_csr(values, columns, indptr, n_columns)
    rows.data = to_stored_dtype(rows.data, piece.describe_position(0))
    rows.eliminate_zeros()  # a zero entry only marks a document without entries
    labels = _build_csr(np.ones(len(names), dtype=np.float32), names, label_indptr, n_labels)
    # Duplicate labels were summed; the indicator is 1.
    labels.data[:] = 1
    return ParsedLines(rows, labels)


def _map_classes(piece: LineChunk, names: Numbers, lines: Numbers, indptr: Numbers, *, allowed: bool) -> None:
    """Map the classes -1 and +1 to the labels 0 and 1; raise a ValueError for -1 with other labels."""
    if names.min(initial=0) == 0:
        return
    wrong = np.flatnonzero(np.abs(names) != 1 if allowed else names < 0)
    if len(wrong):
        line = int(lines[np.searchsorted(indptr, wrong[0], side="right") - 1])
        detail = f": label {names[wrong[0]]} in a file with labels of -1" if allowed else ""
        raise ValueError(f"{piece.describe_line(line)}: {ERRORS[1]}{detail}")
    names[names < 0] = 0


def _check_width(
    piece: LineChunk, columns: Numbers, lines: Numbers, indptr: Numbers, width: int, kind: str, first: int
) -> None:
    if not width or columns.max(initial=-1) < width:
        return
    entry = int(np.argmax(columns >= width))
    line = int(lines[np.searchsorted(indptr, entry, side="right") - 1])
    raise ValueError(
        f"{piece.describe_line(line)}: {kind} {columns[entry] + first} must be at most {width - 1 + first}"
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

    Invariant: ``at`` is the start of line ``line``, and rows before ``row`` are complete. Cost: one read per byte, two
    for a column at the start of a line without labels.
    """
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
    """Read comma-separated labels; return an error code, the next position, and the total number of labels.

    A line that starts with a ``column:value`` or ``qid:`` pair has no labels.
    """
    # Invariant: names[first:n_names] are the labels of this line before `at`. Returning `start` and `first` discards
    # them, and the line is parsed as pairs.
    start = at
    if ends_word(text[at]) or text[at] == HASH:
        return 0, at, n_names
    first = n_names
    while True:
        negative = text[at] == MINUS
        at += int(negative or text[at] == PLUS)
        if not is_digit(text[at]):
            return (0, start, first) if text[start] == SMALL_Q else (1, start, first)
        number, at = read_integer(text, at)
        if negative and number != 1:
            return 1, start, first
        if text[at] == COLON:
            return (0, start, first) if n_names == first else (1, start, first)
        if text[at] == POINT:  # 1.0 is accepted as an integer
            at += 1
            while text[at] == 48:
                at += 1
        if number >= MAX_COLUMNS:
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
    """Read the pairs of a line; return an error code, the start of the next line, and the total number of pairs."""
    # Invariant: columns[:n_pairs] and values[:n_pairs] are the valid pairs before `at`. Cost: one read per byte.
    while True:
        at = _next_word(text, at)
        if text[at] == NEWLINE:
            return 0, at + 1, n_pairs
        if not is_digit(text[at]):
            return 2, at, n_pairs
        number, at = read_integer(text, at)
        if text[at] != COLON:
            return (3 if ends_word(text[at]) else 2), at, n_pairs
        value, at = read_decimal(text, at + 1)
        if np.isnan(value) or not (ends_word(text[at]) or text[at] == HASH):
            return 4, at, n_pairs
        number -= first_column
        if number < 0 or number >= MAX_COLUMNS or abs(value) >= INFINITE:
            return (5 if number < 0 else 7 if number >= MAX_COLUMNS else 8), at, n_pairs
        columns[n_pairs], values[n_pairs] = number, value
        n_pairs += 1


@compiled
def _next_word(text: Text, at: int) -> int:
    """Return the position after spaces, ``qid:`` pairs and a comment."""
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
