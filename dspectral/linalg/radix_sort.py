"""Stable radix sort of non-negative integers, in linear time."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.types import AnyArray, Int64s

MAX_DIGIT_BITS = 9
"""Largest number of bits of a digit: the counts of its 512 values fit in the L1 cache."""
N_VALUES = 1 << MAX_DIGIT_BITS
N = TypeVar("N", bound=np.generic)


@compiled
def sort_keys(
    keys: NDArray[N], scratch: NDArray[N], positions: Int64s, n: int, low: int, high: int
) -> tuple[NDArray[N], NDArray[N]]:
    """Sort the first ``n`` keys by some of their bits; return the sorted buffer and the other one."""
    n_digits, width = _split_digits(high - low)
    mask = keys.dtype.type((1 << width) - 1)
    # Count all digits before sorting: among sorted keys equal ones are adjacent, and each increment would wait for the
    # previous one of the same counter.
    for digit in range(n_digits):
        _write_first_positions(keys, n, keys.dtype.type(low + digit * width), mask, positions[digit])
    # Invariant: before each digit the keys are stably sorted by all lower digits.
    for digit in range(n_digits):
        _scatter(keys, scratch, n, keys.dtype.type(low + digit * width), mask, positions[digit])
        keys, scratch = scratch, keys
    return keys, scratch


@compiled
def _scatter(keys: NDArray[N], scratch: NDArray[N], n: int, shift: Any, mask: Any, positions: Int64s) -> None:
    # Unsigned indices: compiled loops check each signed index for negative values, which count from the end.
    for i in range(n):
        key = keys[np.uint64(i)]
        value = np.uint64((key >> shift) & mask)
        position = positions[value]
        scratch[np.uint64(position)] = key
        positions[value] = position + 1


@compiled
def sort_pairs(keys: NDArray[np.uint64], values: NDArray[N], n_bits: int) -> tuple[NDArray[np.uint64], NDArray[N]]:
    """Sort pairs (n,) by the lowest bits of their keys; pairs with equal keys keep their order."""
    n_digits, width = _split_digits(n_bits)
    positions = np.empty(N_VALUES, dtype=np.int64)
    scratch_keys, scratch_values = np.empty_like(keys), np.empty_like(values)
    for digit in range(n_digits):  # the invariant is that of sort_keys
        shift, mask = np.uint64(digit * width), np.uint64((1 << width) - 1)
        _write_first_positions(keys, keys.size, shift, mask, positions)
        for i in range(keys.size):
            value = (keys[i] >> shift) & mask
            position = np.uint64(positions[value])
            scratch_keys[position], scratch_values[position] = keys[i], values[i]
            positions[value] += 1
        keys, scratch_keys = scratch_keys, keys
        values, scratch_values = scratch_values, values
    return keys, values


@compiled
def _split_digits(n_bits: int) -> tuple[int, int]:
    """Return the number and the width of digits: as few as possible, of equal width."""
    n_digits = (n_bits + MAX_DIGIT_BITS - 1) // MAX_DIGIT_BITS
    return n_digits, (n_bits + n_digits - 1) // max(n_digits, 1)


@compiled
def _write_first_positions(keys: AnyArray, n: int, shift: Any, mask: Any, positions: Int64s) -> None:
    """Write the position of the first key with each value of the digit into ``positions``."""
    n_values = np.int64(mask) + 1
    for value in range(n_values):
        positions[np.uint64(value)] = 0
    for i in range(n):
        positions[np.uint64((keys[np.uint64(i)] >> shift) & mask)] += 1
    # Exclusive cumulative sum: positions[value] is the number of keys whose digit is smaller.
    total = 0
    for value in range(n_values):
        count = positions[np.uint64(value)]
        positions[np.uint64(value)] = total
        total += count
