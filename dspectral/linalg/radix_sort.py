"""Sorting of non-negative integers digit by digit: linear time, and equal keys keep their order."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.types import Int64s

DIGIT = 9
"""Bits of a digit at most: the 512 places that are written to fit in the first-level cache."""
N_VALUES = 1 << DIGIT
N = TypeVar("N", bound=np.generic)


@compiled
def sort_keys(
    keys: NDArray[N], spare: NDArray[N], places: Int64s, n: int, low: int, high: int
) -> tuple[NDArray[N], NDArray[N]]:
    """Sort the first ``n`` keys by their bits ``low``, ..., ``high - 1``; return where they are, and the spare.

    Shapes: `places` (at least as many as there are digits, N_VALUES), room for the loop.
    """
    n_digits, width = _digits(high - low)
    mask = keys.dtype.type((1 << width) - 1)
    # All digits are counted in the first order: behind a sort equal keys stand together, and each would wait for the
    # count that the one before it writes.
    for digit in range(n_digits):
        _find_places(keys, n, keys.dtype.type(low + digit * width), mask, places[digit])
    # Invariant: before each digit the keys are sorted by all lower digits, and equal ones are in their first order.
    for digit in range(n_digits):
        _scatter(keys, spare, n, keys.dtype.type(low + digit * width), mask, places[digit])
        keys, spare = spare, keys
    return keys, spare


@compiled
def _scatter(keys: NDArray[N], spare: NDArray[N], n: int, shift: Any, mask: Any, places: Int64s) -> None:
    # Unsigned, because a compiled loop tests each signed index for being negative, which counts from the end.
    for i in range(n):
        key = keys[np.uint64(i)]
        value = np.uint64((key >> shift) & mask)
        place = places[value]
        spare[np.uint64(place)] = key
        places[value] = place + 1


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
def _find_places(keys: NDArray[Any], n: int, shift: Any, mask: Any, places: Int64s) -> None:
    """Write the position of the first key with each value of the digit into ``places``."""
    n_values = np.int64(mask) + 1
    for value in range(n_values):
        places[np.uint64(value)] = 0
    for i in range(n):
        places[np.uint64((keys[np.uint64(i)] >> shift) & mask)] += 1
    # Counts become beginnings: places[value] is the number of keys whose digit is smaller.
    total = 0
    for value in range(n_values):
        count = places[np.uint64(value)]
        places[np.uint64(value)] = total
        total += count
