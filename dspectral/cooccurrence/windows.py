"""Context counts of one block of sentences: the rows of a CSR matrix one after the other, without a dictionary."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.linalg.panels import cut_runs
from dspectral.types import Sentences

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
"""Number whose 64 runs of six bits are all different (Leiserson, Prokop and Randall 1998)."""
PLACES = np.empty(64, dtype=np.uint8)
"""Place of a bit, by the run of six bits that the number above, shifted by that place, begins with."""
for _place in range(64):
    PLACES[((int(DE_BRUIJN) << _place) % 2**64) >> 58] = _place
MANY = 1 << 20
"""Pairs of a token and a context of rows that are counted in one go: 12 MB, which the allocator hands out again."""

CSRParts: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]
"""``data``, ``indices`` and ``indptr`` of a CSR matrix."""


class RowSums(NamedTuple):
    """Sums of the row at hand, all zero between rows.

    `sums` (n_columns,): sum of each column; `marks` (ceil(n_columns / 64),): A bit for each column that was
    met; `tops` (ceil(n_columns / 4096),): A bit for each number of ``marks`` that is not zero.
    """

    sums: NDArray[np.float64]
    marks: NDArray[np.uint64]
    tops: NDArray[np.uint64]

    @classmethod
    def of(cls, n_columns: int) -> "RowSums":
        """Return an empty row.

        >>> row = RowSums.of(100)
        >>> add_to_row(row, 70, 0.5), add_to_row(row, 3, 1.0), add_to_row(row, 70, 0.5)
        (None, None, None)
        >>> data, indices = np.zeros(2), np.zeros(2, dtype=np.int32)
        >>> take_row(row, data, indices, 0), data, indices
        (2, array([1., 1.]), array([ 3, 70], dtype=int32))
        """
        n_marks = -(-n_columns // 64)
        return cls(
            np.zeros(n_columns), np.zeros(n_marks, dtype=np.uint64), np.zeros(-(-n_marks // 64), np.uint64)
        )


@compiled
def add_to_row(row: RowSums, column: int, value: float) -> None:
    """Add a value to a column."""
    # Unsigned, because a compiled loop tests each signed index for being negative, which counts from the end. Bits are
    # set without asking whether they are: most columns of a row are new, and none is waited for.
    place, one, low = np.uint64(column), np.uint64(1), np.uint64(63)
    mark = place >> np.uint64(6)
    row.marks[mark] |= one << (place & low)
    row.tops[mark >> np.uint64(6)] |= one << (mark & low)
    row.sums[place] += value


# Bits in order are columns in order: no sorting, and no column is looked at that was not met but those of `tops`.
# Invariant: data[:end] and indices[:end] hold the columns whose bits are cleared; their sums are zero again.
@compiled
def take_row(row: RowSums, data: NDArray[np.float64], indices: NDArray[np.int32], end: int) -> int:
    """Write the columns that were met and their sums, and clear the row."""
    one, shift = np.uint64(1), np.uint64(58)
    for i in range(row.tops.size):
        top = row.tops[i]
        row.tops[i] = 0
        while top:
            lowest = top & (~top + one)
            top ^= lowest
            mark = np.uint64(64 * i) + np.uint64(PLACES[(lowest * DE_BRUIJN) >> shift])
            bits = row.marks[mark]
            row.marks[mark] = 0
            while bits:
                lowest = bits & (~bits + one)
                bits ^= lowest
                column = mark * np.uint64(64) + np.uint64(PLACES[(lowest * DE_BRUIJN) >> shift])
                indices[end], data[end] = column, row.sums[column]
                row.sums[column] = 0.0
                end += 1
    return end


class Window(NamedTuple):
    """Which neighbors of a word are its contexts, and under which column each is counted.

    `weights` (n_positions,): weight of a word at each position; `first` (n_positions,): raw column of word
    type 0 at each position; `left, right`: number of positions on each side; `columns`: column of each raw
    column; `n_columns`: number of columns.
    """

    weights: NDArray[np.float64]
    first: NDArray[np.int64]
    left: int
    right: int
    columns: NDArray[np.int32]
    n_columns: int


def count_contexts(sentences: Sentences, n_types: int, window: Window) -> CSRParts:
    """Add up the weights of the contexts of each word type.

    Shapes: returns `indptr` (n_types + 1,).

    One pass in linear time: one random access for each token, and one addition for each pair of a token and a
    context. Memory: 16 bytes for each token, 9 for each column, and about twice the result.

    >>> right = Window(np.ones(1), np.zeros(1, dtype=np.int64), 0, 1, np.empty(0, dtype=np.int32), 2)
    >>> count_contexts(Sentences.of([[0, 1, 1, 1]]), 2, right)
    (array([1., 2.]), array([1, 1], dtype=int32), array([0, 1, 2]))
    """
    (whole,) = count_runs(sentences, n_types, window, [(0, n_types)])
    return whole


def count_runs(
    sentences: Sentences, n_types: int, window: Window, runs: Sequence[tuple[int, int]]
) -> Iterator[CSRParts]:
    """Add up the weights of the contexts of each word type, some types at a time.

    Memory: 16 bytes for each token, 9 for each column, and about twice the rows of one run.
    """
    ids, offsets = read_only(sentences.ids), read_only(sentences.offsets)
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_types:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise ValueError(f"a sentence has word type {wrong}, but there are {n_types} types, from 0")
    tokens = Tokens(*_tokens_by_type(ids, offsets, n_types, window.left, window.right))
    arrays = (read_only(window.weights), read_only(window.first), read_only(window.columns))
    row = RowSums.of(window.n_columns)
    for first, last in runs:
        # Few rows at a time: memory that is asked of the system and given back anew costs more than the counting.
        some = [(first + a, first + b) for a, b in cut_runs(tokens.n_pairs[first:last], MANY)]
        yield _joined([_count(ids, tokens, a, b, window.left, arrays, row) for a, b in some])


class Tokens(NamedTuple):
    """The tokens of a block, type by type.

    `places` (n_tokens,): place of each token in the text; `rooms` (n_tokens, 2): number of positions left and right of
    the token within its sentence; `starts` (n_types + 1,): first token of each type; `n_pairs` (n_types,): number of
    positions of all tokens of each type.
    """

    places: NDArray[np.int64]
    rooms: NDArray[np.int32]
    starts: NDArray[np.int64]
    n_pairs: NDArray[np.int64]


def _joined(parts: list[CSRParts]) -> CSRParts:
    """Return the rows of several matrices, one after the other."""
    if len(parts) == 1:
        return parts[0]
    sizes = [np.zeros(1, dtype=np.int64), *(np.diff(indptr) for _, _, indptr in parts)]
    data = [np.empty(0), *(values for values, _, _ in parts)]
    indices = [np.empty(0, dtype=np.int32), *(columns for _, columns, _ in parts)]
    return np.concatenate(data), np.concatenate(indices), np.cumsum(np.concatenate(sizes))


# Row by row: N[w, c] = sum of weights[p] over the tokens of type w and the positions p at which context c stands.
#
# Counting sort first lists the tokens of each type, so all pairs of one row come together: the row is summed in
# a dense array that stays in a core's cache, where a matrix or a dictionary of pairs would miss it at each pair.
# Invariant at the start of each row: `row` is zero, and data[:end] holds the rows before it. A row costs its pairs,
# its distinct columns, and a look at each 4096th column.
@compiled
def _count(
    ids: NDArray[np.int32],
    tokens: Tokens,
    start: int,
    stop: int,
    left: int,
    arrays: tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]],
    row: RowSums,
) -> CSRParts:
    weights, first, columns = arrays
    # No row has more entries than pairs, or than there are columns.
    room = 0
    for word in range(start, stop):
        room += min(tokens.n_pairs[word], row.sums.size)
    data, indices = np.empty(room, dtype=np.float64), np.empty(room, dtype=np.int32)
    indptr = np.zeros(stop - start + 1, dtype=np.int64)
    end = 0
    for word in range(start, stop):
        for k in range(tokens.starts[word], tokens.starts[word + 1]):
            place = tokens.places[k]
            for position in range(left - tokens.rooms[k, 0], left + tokens.rooms[k, 1]):
                # Positions skip the word itself: from -left to -1, then from 1 to right.
                step = position - left
                column = first[position] + ids[np.uint64(place + (step if step < 0 else step + 1))]
                if columns.size:
                    column = np.int64(columns[column])
                add_to_row(row, column, weights[position])
        end = take_row(row, data, indices, end)
        indptr[word - start + 1] = end
    return data[:end].copy(), indices[:end].copy(), indptr


# Counting sort of the tokens by type, stable, O(n_tokens + n_types). Invariant of the second loop: the tokens of type
# w that were visited fill places[starts[w]:next_place[w]].
@compiled
def _tokens_by_type(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], n_types: int, left: int, right: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the fields of ``Tokens``."""
    starts = np.zeros(n_types + 1, dtype=np.int64)
    for token in range(ids.size):
        starts[ids[token] + 1] += 1
    for word in range(n_types):
        starts[word + 1] += starts[word]
    # `rooms` says how many positions on each side lie within the sentence, so that no later loop asks where one ends.
    next_place, n_pairs = starts[:-1].copy(), np.zeros(n_types, dtype=np.int64)
    places, rooms = np.empty(ids.size, dtype=np.int64), np.empty((ids.size, 2), dtype=np.int32)
    for i in range(offsets.size - 1):
        begin, end = offsets[i], offsets[i + 1]
        for token in range(begin, end):
            k = next_place[ids[token]]
            next_place[ids[token]] += 1
            places[k] = token
            rooms[k, 0] = min(left, token - begin)
            rooms[k, 1] = min(right, end - 1 - token)
            n_pairs[ids[token]] += rooms[k, 0] + rooms[k, 1]
    return places, rooms, starts, n_pairs
