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
def read_integer(text: Text, position: int) -> tuple[int, int]:
    """Read a nonnegative integer; return it, capped above 2**40, and the next position."""
    number = 0
    while is_digit(text[position]):
        if number < 1 << 40:
            number = number * 10 + int(text[position]) - 48
        position += 1
    return number, position


@compiled
def read_decimal(text: Text, position: int) -> tuple[float, int]:
    """Read a decimal number to 1 ulp of float32; return it, or NaN if there is none, and the next position."""
    sign = -1.0 if text[position] == MINUS else 1.0
    position += int(text[position] == MINUS or text[position] == PLUS)
    # float64 accumulates the digits, since a long number would overflow an integer. Powers of ten beyond 400 are
    # infinite anyway.
    number, scale, digits = 0.0, 0, 0
    while is_digit(text[position]):
        number, digits, position = number * 10.0 + (text[position] - 48.0), digits + 1, position + 1
    if text[position] == POINT:
        position += 1
        while is_digit(text[position]):
            number = number * 10.0 + (text[position] - 48.0)
            scale = scale - 1
            digits = digits + 1
            position = position + 1
    if digits == 0:
        return np.nan, position
    if text[position] == SMALL_E or text[position] == CAPITAL_E:
        negative = text[position + 1] == MINUS
        position += 1 + int(text[position + 1] == MINUS or text[position + 1] == PLUS)
        if not is_digit(text[position]):
            return np.nan, position
        exponent, position = read_integer(text, position)
        scale += -exponent if negative else exponent
    if scale < 0:
        return sign * (number / 10.0 ** min(-scale, 400)), position
    # Keep 0: 0 * inf is NaN.
    return sign * number * (10.0 ** min(scale, 400) if number else 1.0), position


@compiled
def is_digit(byte: np.uint8) -> bool:
    """Return whether a byte is an ASCII digit."""
    return bool(48 <= byte <= 57)


@compiled
def is_separator(byte: np.uint8) -> bool:
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
    chunk: LineChunk,
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
    data = chunk.data
    text = np.frombuffer(data if data.endswith(b"\n") or not data else data + b"\n", dtype=np.uint8)
    # Each pair has a colon, and each label is followed by a comma or a line break: this bounds the arrays.
    n_lines, n_pairs = int(np.sum(text == NEWLINE)), int(np.sum(text == COLON))
    n_label_ids = n_lines + int(np.sum(text == COMMA))
    columns, values = np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs)
    label_ids = np.empty(n_label_ids, dtype=np.int64)
    indptr, label_indptr = np.zeros(n_lines + 1, dtype=np.int64), np.zeros(n_lines + 1, dtype=np.int64)
    lines = np.zeros(n_lines, dtype=np.int64)
    code, line, n_rows = _parse(text, columns, values, indptr, label_ids, label_indptr, lines, first_column, skip_empty)
    if code:
        raise ValueError(f"{chunk.describe_line(line)}: {ERRORS[code]}")
    indptr, label_indptr = indptr[: n_rows + 1], label_indptr[: n_rows + 1]
    columns, values, label_ids = columns[: indptr[-1]], values[: indptr[-1]], label_ids[: label_indptr[-1]]
    _map_classes(chunk, label_ids, lines, label_indptr, allow_signed_classes=skip_empty)
    _check_width(chunk, columns, lines, indptr, n_columns, "column", first_column)
    _check_width(chunk, label_ids, lines, label_indptr, n_labels, "label", 0)
    rows = _build_csr(values, columns, indptr, n_columns)
    rows.data = to_stored_dtype(rows.data, chunk.describe_position(0))
    rows.eliminate_zeros()  # a zero entry only marks a document without entries
    labels = _build_csr(np.ones(len(label_ids), dtype=np.float32), label_ids, label_indptr, n_labels)
    # Duplicate labels were summed; the indicator is 1.
    labels.data[:] = 1
    return ParsedLines(rows, labels)


def _map_classes(
    chunk: LineChunk, label_ids: Numbers, lines: Numbers, indptr: Numbers, *, allow_signed_classes: bool
) -> None:
    """Map the classes -1 and +1 to the labels 0 and 1; raise a ValueError for -1 with other labels."""
    if label_ids.min(initial=0) == 0:
        return
    wrong = np.flatnonzero(np.abs(label_ids) != 1 if allow_signed_classes else label_ids < 0)
    if len(wrong):
        line = int(lines[np.searchsorted(indptr, wrong[0], side="right") - 1])
        detail = f": label {label_ids[wrong[0]]} in a file with labels of -1" if allow_signed_classes else ""
        raise ValueError(f"{chunk.describe_line(line)}: {ERRORS[1]}{detail}")
    label_ids[label_ids < 0] = 0


def _check_width(
    chunk: LineChunk, columns: Numbers, lines: Numbers, indptr: Numbers, width: int, kind: str, first_index: int
) -> None:
    if not width or columns.max(initial=-1) < width:
        return
    entry = int(np.argmax(columns >= width))
    line = int(lines[np.searchsorted(indptr, entry, side="right") - 1])
    raise ValueError(
        f"{chunk.describe_line(line)}: {kind} {columns[entry] + first_index} must be at most {width - 1 + first_index}"
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
    label_ids: Numbers,
    label_indptr: Numbers,
    lines: Numbers,
    first_column: int,
    skip_empty: bool,
) -> tuple[int, int, int]:
    """Write rows and labels in CSR layout; return an error code, its line, and the number of rows.

    Invariant: ``position`` is the start of line ``line``, and rows before ``row`` are complete. Cost: one read per
    byte, two for a column at the start of a line without labels.
    """
    position, line, row, n_pairs, n_label_ids = 0, 0, 0, 0, 0
    while position < text.size:
        before = n_pairs + n_label_ids
        code, position, n_label_ids = _read_labels(text, position, label_ids, n_label_ids)
        if code == 0:
            code, position, n_pairs = _read_pairs(text, position, columns, values, n_pairs, first_column)
        if code:
            return code, line, row
        if n_pairs + n_label_ids > before or not skip_empty:
            lines[row] = line
            row += 1
            indptr[row], label_indptr[row] = n_pairs, n_label_ids
        line += 1
    return 0, 0, row


@compiled
def _read_labels(text: Text, position: int, label_ids: Numbers, n_label_ids: int) -> tuple[int, int, int]:
    """Read comma-separated labels, if the line has any; return error code, next position and number of labels."""
    # Invariant: label_ids[first:n_label_ids] are the labels of this line before `position`. Returning `start` and
    # `first` discards them, and the line is parsed as pairs.
    start = position
    if is_separator(text[position]) or text[position] == HASH:
        return 0, position, n_label_ids
    first = n_label_ids
    while True:
        negative = text[position] == MINUS
        position += int(negative or text[position] == PLUS)
        if not is_digit(text[position]):
            return (0, start, first) if text[start] == SMALL_Q else (1, start, first)
        number, position = read_integer(text, position)
        if negative and number != 1:
            return 1, start, first
        if text[position] == COLON:
            return (0, start, first) if n_label_ids == first else (1, start, first)
        if text[position] == POINT:  # 1.0 is accepted as an integer
            position += 1
            while text[position] == 48:
                position += 1
        if number >= MAX_COLUMNS:
            return 6, start, first
        label_ids[n_label_ids] = -1 if negative else number
        n_label_ids += 1
        if text[position] != COMMA:
            break
        position += 1
    return (0 if is_separator(text[position]) else 1), position, n_label_ids


@compiled
def _read_pairs(
    text: Text, position: int, columns: Numbers, values: NDArray[np.float64], n_pairs: int, first_column: int
) -> tuple[int, int, int]:
    """Read the pairs of a line; return an error code, the start of the next line, and the total number of pairs."""
    # Invariant: columns[:n_pairs] and values[:n_pairs] are the valid pairs before `position`. Cost: one read per byte.
    while True:
        position = _find_next_word(text, position)
        if text[position] == NEWLINE:
            return 0, position + 1, n_pairs
        if not is_digit(text[position]):
            return 2, position, n_pairs
        number, position = read_integer(text, position)
        if text[position] != COLON:
            return (3 if is_separator(text[position]) else 2), position, n_pairs
        value, position = read_decimal(text, position + 1)
        if np.isnan(value) or not (is_separator(text[position]) or text[position] == HASH):
            return 4, position, n_pairs
        number -= first_column
        if number < 0 or number >= MAX_COLUMNS or abs(value) >= INFINITE:
            return (5 if number < 0 else 7 if number >= MAX_COLUMNS else 8), position, n_pairs
        columns[n_pairs], values[n_pairs] = number, value
        n_pairs += 1


@compiled
def _find_next_word(text: Text, position: int) -> int:
    """Return the position after spaces, ``qid:`` pairs and a comment."""
    while True:
        while text[position] != NEWLINE and is_separator(text[position]):
            position += 1
        if text[position] == HASH:
            while text[position] != NEWLINE:
                position += 1
        elif text[position] == SMALL_Q:
            while not is_separator(text[position]):
                position += 1
            continue
        return position
