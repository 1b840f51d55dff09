"""Sorting of whole numbers digit by digit, in linear time and keeping the order of equals."""

from typing import Any

import numpy as np

from dspectral._compiled import compiled

DIGIT = 9  # bits: 512 places to write to fit the first cache
N_VALUES = 1 << DIGIT


@compiled
def sort_keys(keys: Any, spare: Any, n: Any, low: Any, high: Any) -> Any:
    """Sort the first n keys by their bits low, ..., high - 1.

    Parameters
    ----------
    keys, spare : ndarray of uint64
        Of the same length, at least n; both are overwritten.
    n, low, high : int

    Returns
    -------
    ndarray of uint64
        `keys` or `spare`: the one that holds the sorted keys.

    Examples
    --------
    >>> sort_keys(np.array([5, 9, 4], dtype=np.uint64), np.empty(3, dtype=np.uint64), 3, 0, 4)
    array([4, 5, 9], dtype=uint64)
    """
    n_digits, width = _digits(high - low)
    places = np.empty(N_VALUES, dtype=np.int64)
    for digit in range(n_digits):
        shift, mask = np.uint64(low + digit * width), np.uint64((1 << width) - 1)
        _count(keys, n, shift, mask, places)
        for i in range(n):
            value = (keys[i] >> shift) & mask
            spare[np.uint64(places[value])] = keys[i]
            places[value] += 1
        keys, spare = spare, keys
    return keys


@compiled
def sort_pairs(keys: Any, values: Any, n_bits: Any) -> Any:
    """Sort pairs by the lowest bits of their keys; pairs with equal keys keep their order.

    Parameters
    ----------
    keys : ndarray of uint64, shape (n,)
        Overwritten.
    values : ndarray, shape (n,)
        Overwritten.
    n_bits : int

    Returns
    -------
    keys, values : ndarray, shape (n,)
        Sorted.

    Examples
    --------
    >>> sort_pairs(np.array([3, 1], dtype=np.uint64), np.array([7, 8]), 2)
    (array([1, 3], dtype=uint64), array([8, 7]))
    """
    n_digits, width = _digits(n_bits)
    places = np.empty(N_VALUES, dtype=np.int64)
    spare_keys, spare_values = np.empty_like(keys), np.empty_like(values)
    for digit in range(n_digits):
        shift, mask = np.uint64(digit * width), np.uint64((1 << width) - 1)
        _count(keys, keys.size, shift, mask, places)
        for i in range(keys.size):
            value = (keys[i] >> shift) & mask
            place = np.uint64(places[value])
            spare_keys[place], spare_values[place] = keys[i], values[i]
            places[value] += 1
        keys, spare_keys = spare_keys, keys
        values, spare_values = spare_values, values
    return keys, values


@compiled
def _digits(n_bits: Any) -> Any:
    n_digits = (n_bits + DIGIT - 1) // DIGIT
    return n_digits, (n_bits + n_digits - 1) // max(n_digits, 1)


@compiled
def _count(keys: Any, n: Any, shift: Any, mask: Any, places: Any) -> None:
    """Write where the first key with each value of the digit goes."""
    n_values = np.int64(mask) + 1
    places[:n_values] = 0
    for i in range(n):
        places[(keys[i] >> shift) & mask] += 1
    total = 0
    for value in range(n_values):
        count = places[value]
        places[value] = total
        total += count
