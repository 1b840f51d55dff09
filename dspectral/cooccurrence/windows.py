"""How often words stand near each other: one row of counts after the other, without a dictionary.

The places of a word are visited one after the other, so the counts of one word are all that is being added up:
they lie in a dense row that fits a core's cache, and leave it sorted, as a row of CSR.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.linalg.radix_sort import sort_keys
from dspectral.types import Sentences

FEW = 24
"""Columns up to which a row is sorted by insertion."""


class Window(NamedTuple):
    """What is near a word, and under which column it is counted.

    Attributes
    ----------
    weights : ndarray of float64, shape (n_positions,)
        Of each position, the farthest on the left first; those of the left half, then of the right half.
    first : ndarray of int64, shape (n_positions,)
        Raw column of word type 0 at each position: a type's is as many columns further.
    left, right : int
        How many positions are on either side.
    columns : ndarray of int32
        Column of each raw column; empty where they are the same.
    n_columns : int
    """

    weights: NDArray[np.float64]
    first: NDArray[np.int64]
    left: int
    right: int
    columns: NDArray[np.int32]
    n_columns: int


def count_contexts(
    sentences: Sentences, n_types: int, window: Window
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
    """Add up the weights of what is near each word type.

    Parameters
    ----------
    sentences : Sentences
        Of ids below ``n_types``. What is in another sentence is not near.
    n_types : int
    window : Window

    Returns
    -------
    data, indices, indptr : ndarray of float64, int32 and int64
        Of a CSR matrix with a row for each type, columns sorted.

    Raises
    ------
    ValueError
        If an id is out of range.

    Notes
    -----
    One pass. Linear time: a place in memory is looked up for each token, and an addition made for each pair.
    Holds 16 bytes for each token, 20 for each column, and about twice the result.

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
    data, indices, indptr = _count(ids, offsets, n_types, window.left, window.right, arrays, window.n_columns)
    return data, indices, indptr


@compiled
def _count(ids: Any, offsets: Any, n_types: Any, left: Any, right: Any, arrays: Any, n_columns: Any) -> Any:
    weights, first, columns = arrays
    places, starts, rooms = _places_by_type(ids, offsets, n_types, left, right)
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
                step = position - left
                column = first[position] + ids[place + (step if step < 0 else step + 1)]
                if columns.size:
                    column = np.int64(columns[column])
                if not seen[column]:
                    seen[column] = 1
                    found[n] = column
                    n += 1
                sums[column] += weights[position]
        row = _sorted(found, spare, n, n_bits)
        if end + n > data.size:
            size = max(end + n, 2 * data.size)
            data, indices = _longer(data, size), _longer(indices, size)
        for i in range(n):
            column = np.int64(row[i])
            indices[end], data[end] = column, sums[column]
            sums[column], seen[column] = 0.0, 0
            end += 1
        indptr[word + 1] = end
    return data[:end].copy(), indices[:end].copy(), indptr


@compiled
def _places_by_type(ids: Any, offsets: Any, n_types: Any, left: Any, right: Any) -> Any:
    """Return the places of the tokens, type by type, and how many tokens of the window are on either side."""
    starts = np.zeros(n_types + 1, dtype=np.int64)
    for token in range(ids.size):
        starts[ids[token] + 1] += 1
    for word in range(n_types):
        starts[word + 1] += starts[word]
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
def _sorted(keys: Any, spare: Any, n: Any, n_bits: Any) -> Any:
    if n > FEW:
        return sort_keys(keys, spare, n, 0, n_bits)
    for i in range(1, n):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key
    return keys


@compiled
def _longer(values: Any, size: Any) -> Any:
    longer = np.empty(size, dtype=values.dtype)
    longer[: values.size] = values
    return longer
