"""Sorting of non-negative integers digit by digit: linear time, and equal keys keep their order."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled

DIGIT = 9
"""Bits of a digit at most: the 512 places that are written to fit in the first-level cache."""
N_VALUES = 1 << DIGIT
N = TypeVar("N", bound=np.generic)


@compiled
def sort_keys(
    keys: NDArray[np.uint64], spare: NDArray[np.uint64], n: int, low: int, high: int
) -> NDArray[np.uint64]:
    """Sort the first ``n`` keys by their bits ``low``, ..., ``high - 1``."""
    n_digits, width = _digits(high - low)
    places = np.empty(N_VALUES, dtype=np.int64)
    # Invariant: before each digit the keys are sorted by all lower digits, and equal ones are in their first order.
    for digit in range(n_digits):
        shift, mask = np.uint64(low + digit * width), np.uint64((1 << width) - 1)
        _find_places(keys, n, shift, mask, places)
        for i in range(n):
            value = (keys[i] >> shift) & mask
            # Unsigned, because a compiled loop tests each signed index for being negative, which counts from the end.
            spare[np.uint64(places[value])] = keys[i]
            places[value] += 1
        keys, spare = spare, keys
    return keys


@compiled
def sort_pairs(
    keys: NDArray[np.uint64], values: NDArray[N], n_bits: int
) -> tuple[NDArray[np.uint64], NDArray[N]]:
    """Sort pairs (n,) by the lowest bits of their keys; pairs with equal keys keep their order."""
    n_digits, width = _digits(n_bits)
    places = np.empty(N_VALUES, dtype=np.int64)
    spare_keys, spare_values = np.empty_like(keys), np.empty_like(values)
    for digit in range(n_digits):  # the invariant is that of sort_keys
        shift, mask = np.uint64(digit * width), np.uint64((1 << width) - 1)
        _find_places(keys, keys.size, shift, mask, places)
        for i in range(keys.size):
            value = (keys[i] >> shift) & mask
            place = np.uint64(places[value])
            spare_keys[place], spare_values[place] = keys[i], values[i]
            places[value] += 1
        keys, spare_keys = spare_keys, keys
        values, spare_values = spare_values, values
    return keys, values


@compiled
def _digits(n_bits: int) -> tuple[int, int]:
    """Return into how many digits of how many bits to cut a key: as few as can be, of equal width."""
    n_digits = (n_bits + DIGIT - 1) // DIGIT
    return n_digits, (n_bits + n_digits - 1) // max(n_digits, 1)


@compiled
def _find_places(
    keys: NDArray[np.uint64], n: int, shift: np.uint64, mask: np.uint64, places: NDArray[np.int64]
) -> None:
    """Write the position of the first key with each value of the digit into ``places``."""
    n_values = np.int64(mask) + 1
    places[:n_values] = 0
    for i in range(n):
        places[(keys[i] >> shift) & mask] += 1
    # Counts become beginnings: places[value] is the number of keys whose digit is smaller.
    total = 0
    for value in range(n_values):
        count = places[value]
        places[value] = total
        total += count
