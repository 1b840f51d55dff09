"""Context counts of one block of sentences: the rows of a CSR matrix one after the other, without a dictionary."""

from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.linalg.radix_sort import sort_keys
from dspectral.types import Sentences

FEW = 24
"""Number of columns up to which a row is sorted by insertion."""

CSRParts: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]
"""``data``, ``indices`` and ``indptr`` of a CSR matrix."""
Number = TypeVar("Number", bound=np.generic)


class Window(NamedTuple):
    """Which neighbors of a word are its contexts, and under which column each is counted.

    Attributes
    ----------
    weights : ndarray of float64, shape (n_positions,)
        Weight of a word at each position; positions run from the farthest on the left to the farthest on the right.
    first : ndarray of int64, shape (n_positions,)
        Raw column of word type 0 at each position; the raw column of type i is ``first + i``.
    left, right : int
        Number of positions on each side.
    columns : ndarray of int32
        Column of each raw column; empty if columns are the raw columns themselves.
    n_columns : int
        Number of columns.
    """

    weights: NDArray[np.float64]
    first: NDArray[np.int64]
    left: int
    right: int
    columns: NDArray[np.int32]
    n_columns: int


def count_contexts(sentences: Sentences, n_types: int, window: Window) -> CSRParts:
    """Add up the weights of the contexts of each word type.

    Parameters
    ----------
    sentences : Sentences
        Word ids below ``n_types``. A word of another sentence is never a context.
    n_types : int
        Number of word types, which are the rows of the result.
    window : Window
        Positions, weights and columns of contexts.

    Returns
    -------
    data : ndarray of float64
        Sums of weights, row after row.
    indices : ndarray of int32
        Column of each sum; ascending within a row.
    indptr : ndarray of int64, shape (n_types + 1,)
        Row i is ``data[indptr[i]:indptr[i + 1]]``.

    Raises
    ------
    ValueError
        If an id is out of range.

    Notes
    -----
    One pass in linear time: one random access for each token, and one addition for each pair of a token and a
    context. Memory: 16 bytes for each token, 25 for each column, and about twice the result.

    Examples
    --------
    >>> right = Window(np.ones(1), np.zeros(1, dtype=np.int64), 0, 1, np.empty(0, dtype=np.int32), 2)
    >>> count_contexts(Sentences.of([[0, 1, 1, 1]]), 2, right)
    (array([1., 2.]), array([1, 1], dtype=int32), array([0, 1, 2]))
    """
    ids, offsets = read_only(sentences.ids), read_only(sentences.offsets)
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_types:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise ValueError(f"a sentence has word type {wrong}, but there are {n_types} types, from 0")
    arrays = (read_only(window.weights), read_only(window.first), read_only(window.columns))
    return _count(ids, offsets, n_types, window.left, window.right, arrays, window.n_columns)


# Row by row: N[w, c] = sum of weights[p] over the tokens of type w and the positions p at which context c stands.
#
# Counting sort first lists the tokens of each type, so all pairs of one row come together: the row is summed in
# a dense array that stays in a core's cache, where a matrix or a dictionary of pairs would miss it at each pair.
# Invariant at the start of each row: `sums` and `seen` are zero, and data[:end] holds the rows before it. Only the
# columns in found[:n] are read back and cleared, so a row costs its pairs and the sorting of its distinct columns.
@compiled
def _count(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_types: int,
    left: int,
    right: int,
    arrays: tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]],
    n_columns: int,
) -> CSRParts:
    weights, first, columns = arrays
    places, starts, rooms = _tokens_by_type(ids, offsets, n_types, left, right)
    sums, seen = np.zeros(n_columns, dtype=np.float64), np.zeros(n_columns, dtype=np.uint8)
    found, spare = np.empty(n_columns, dtype=np.uint64), np.empty(n_columns, dtype=np.uint64)
    n_bits = 1
    while (1 << n_bits) < n_columns:
        n_bits += 1
    data, indices = (
        np.empty(max(1024, ids.size), dtype=np.float64),
        np.empty(max(1024, ids.size), dtype=np.int32),
    )
    indptr = np.zeros(n_types + 1, dtype=np.int64)
    end = 0
    for word in range(n_types):
        n = 0
        for k in range(starts[word], starts[word + 1]):
            place = places[k]
            for position in range(left - rooms[k, 0], left + rooms[k, 1]):
                # Positions skip the word itself: from -left to -1, then from 1 to right.
                step = position - left
                column = first[position] + ids[place + (step if step < 0 else step + 1)]
                if columns.size:
                    column = np.int64(columns[column])
                # A weight may be so small that a sum is still 0: `seen` tells new columns apart.
                if not seen[column]:
                    seen[column] = 1
                    found[n] = column
                    n += 1
                sums[column] += weights[position]
        row = _sort_columns(found, spare, n, n_bits)
        if end + n > data.size:  # doubled, so that all copies together cost no more than the result
            size = max(end + n, 2 * data.size)
            data, indices = _lengthen(data, size), _lengthen(indices, size)
        for i in range(n):
            column = np.int64(row[i])
            indices[end], data[end] = column, sums[column]
            sums[column], seen[column] = 0.0, 0
            end += 1
        indptr[word + 1] = end
    return data[:end].copy(), indices[:end].copy(), indptr


# Counting sort of the tokens by type, stable, O(n_tokens + n_types). Invariant of the second loop: the tokens of type
# w that were visited fill places[starts[w]:next_place[w]].
@compiled
def _tokens_by_type(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], n_types: int, left: int, right: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return the places of the tokens type by type, where each type starts, and the positions left and right."""
    starts = np.zeros(n_types + 1, dtype=np.int64)
    for token in range(ids.size):
        starts[ids[token] + 1] += 1
    for word in range(n_types):
        starts[word + 1] += starts[word]
    # `rooms` says how many positions on each side lie within the sentence, so that no later loop asks where one ends.
    next_place = starts[:-1].copy()
    places, rooms = np.empty(ids.size, dtype=np.int64), np.empty((ids.size, 2), dtype=np.int32)
    for i in range(offsets.size - 1):
        begin, end = offsets[i], offsets[i + 1]
        for token in range(begin, end):
            k = next_place[ids[token]]
            next_place[ids[token]] += 1
            places[k] = token
            rooms[k, 0] = min(left, token - begin)
            rooms[k, 1] = min(right, end - 1 - token)
    return places, starts, rooms


@compiled
def _sort_columns(
    keys: NDArray[np.uint64], spare: NDArray[np.uint64], n: int, n_bits: int
) -> NDArray[np.uint64]:
    """Sort the first n columns: most rows are short, where insertion beats the passes of a radix sort."""
    if n > FEW:
        ordered: NDArray[np.uint64] = sort_keys(keys, spare, n, 0, n_bits)
        return ordered
    # Invariant: keys[:i] is sorted; about n^2 / 4 moves, 144 for a row of FEW columns.
    for i in range(1, n):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key
    return keys


@compiled
def _lengthen(values: NDArray[Number], size: int) -> NDArray[Number]:
    longer = np.empty(size, dtype=values.dtype)
    for i in range(values.size):  # not as a slice: what would say that shapes differ takes seconds to compile
        longer[i] = values[i]
    return longer
