"""Parse lines of labels and ``column:value`` pairs into two sparse matrices."""

import re
from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.store.blocks import to_stored_dtype
from dspectral.store.from_text.lines import LineChunk
from dspectral.types import CSRRows, Doubles, Int64s

MAX_COLUMNS = 2**31 - 1
"""Maximum number of columns and labels, whose indices are int32."""
INFINITE = 2.0**128 - 2.0**103
"""Smallest number that rounds to infinity in float32."""
_QUERY_ID = re.compile(rb"(?<!\S)qid:\S*")


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

    >>> parsed = parse_lines(LineChunk(b"0,2 1:0.5 0:1e1\n 1:2\n", "a.txt", 0, 1))
    >>> parsed.rows.toarray(), parsed.labels.toarray()
    (array([[10. ,  0.5],
           [ 0. ,  2. ]], dtype=float32), array([[1., 0., 1.],
           [0., 0., 0.]], dtype=float32))
    """
    numbers, names = array("d"), array("d")
    ends, lines = [(0, 0)], []
    for line, text in enumerate(chunk.data.removesuffix(b"\n").split(b"\n") if chunk.data else ()):
        content = text.partition(b"#")[0]
        content = _QUERY_ID.sub(b"", content) if b"q" in content else content
        words = content.split()
        has_labels = bool(words) and b":" not in words[0] and not content[:1].isspace()
        try:
            names.extend(map(float, words[0].split(b",") if has_labels else ()))
            for word in words[has_labels:]:
                column, value = word.split(b":")
                numbers.append(float(column))
                numbers.append(float(value))
        except ValueError as error:
            form = "labels, then pairs 'column:value', all of them numbers"
            raise ValueError(f"{chunk.describe_line(line)}: {error}, but a line must be {form}") from error
        if words or not skip_empty:
            ends.append((len(numbers) // 2, len(names)))
            lines.append(line)
    indptr, label_indptr = np.array(ends, dtype=np.int64).T
    columns, values = np.array(numbers).reshape(-1, 2).T
    columns, label_ids, is_signed = columns - first_column, np.array(names), skip_empty and min(names, default=0) < 0

    def check(is_valid: NDArray[np.bool_], given: Doubles, indptr: Int64s, kind: str, expected: str) -> None:
        if not is_valid.all():
            entry = int(np.argmin(is_valid))
            line = lines[int(np.searchsorted(indptr, entry, side="right")) - 1]
            raise ValueError(f"{chunk.describe_line(line)}: {kind} {given[entry]:.17g} must be {expected}")

    last, last_label = (n_columns or MAX_COLUMNS) - 1, (n_labels or MAX_COLUMNS) - 1
    is_class = np.abs(label_ids) == 1 if is_signed else _are_indices(label_ids, last_label)
    classes = "-1 or +1, as other labels of the file" if is_signed else f"an integer from 0 to {last_label}"
    check(is_class, label_ids, label_indptr, "label", classes)
    bounds = f"an integer from {first_column} to {last + first_column}: check zero_based"
    check(_are_indices(columns, last), columns + first_column, indptr, "column", bounds)
    check(np.abs(values) < INFINITE, values, indptr, "value", "finite and in the range of float32, 3.4e38")
    rows = _build_csr(values, columns, indptr, n_columns)
    rows.data = to_stored_dtype(rows.data, chunk.describe_position(0))
    rows.eliminate_zeros()  # a zero entry only marks a document without entries
    labels = _build_csr(np.ones(len(label_ids), dtype=np.float32), np.maximum(label_ids, 0), label_indptr, n_labels)
    # Duplicate labels were summed; the indicator is 1.
    labels.data[:] = 1
    return ParsedLines(rows, labels)


def _are_indices(numbers: Doubles, last: int) -> NDArray[np.bool_]:
    """Return which numbers are integers from 0 to the last index."""
    return np.asarray((numbers >= 0) & (numbers <= last) & (numbers == np.rint(numbers)))


def _build_csr(values: NDArray[np.floating], columns: Doubles, indptr: Int64s, width: int) -> CSRRows:
    shape = (len(indptr) - 1, width or int(columns.max(initial=-1)) + 1)
    matrix = sparse.csr_array((values, columns.astype(np.int32), indptr.astype(np.int32)), shape=shape)
    matrix.sum_duplicates()
    return matrix
