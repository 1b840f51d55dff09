"""Terms as slices of bytes: comparing, gathering, hashing and merging sorted lists of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.murmur import hash_slice
from dspectral.types import Documents


def read_only_terms(terms: Documents) -> Documents:
    """Return read-only views of terms, so that a loop is compiled once for all callers.

    Parameters
    ----------
    terms : Documents

    Returns
    -------
    Documents

    Examples
    --------
    >>> read_only_terms(Documents.of(["yes"])).offsets.flags.writeable
    False
    """
    return Documents(read_only(terms.data), read_only(terms.offsets))


def gather(data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Documents:
    """Copy slices of bytes, one after the other.

    Parameters
    ----------
    data : ndarray of uint8
    begins, ends : ndarray of int64, shape (n,)

    Returns
    -------
    Documents
        Of n slices.

    Examples
    --------
    >>> gather(np.frombuffer(b"abcd", dtype=np.uint8), np.array([2, 0]), np.array([4, 1])).data.tobytes()
    b'cda'
    """
    offsets = np.zeros(len(begins) + 1, dtype=np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    return Documents(_gather(read_only(data), read_only(begins), offsets), offsets)


def take(terms: Documents, which: NDArray[np.int64]) -> Documents:
    """Return the terms with these numbers, in this order.

    Parameters
    ----------
    terms : Documents
    which : ndarray of int64, shape (n,)

    Returns
    -------
    Documents
        Of n terms.

    Examples
    --------
    >>> take(Documents.of(["a", "b", "c"]), np.array([2, 0])).data.tobytes()
    b'ca'
    """
    return gather(terms.data, terms.offsets.take(which), terms.offsets.take(which + 1))


def hash_terms(terms: Documents) -> NDArray[np.uint32]:
    """Return the MurmurHash3 of each term.

    Parameters
    ----------
    terms : Documents

    Returns
    -------
    ndarray of uint32, shape (n_terms,)

    Examples
    --------
    >>> hash_terms(Documents.of(["", "word"]))
    array([         0, 3326792864], dtype=uint32)
    """
    codes: NDArray[np.uint32] = _hash_terms(read_only_terms(terms))
    return codes


@compiled
def equal(a: Any, i: Any, i_end: Any, b: Any, j: Any, j_end: Any) -> Any:
    """Whether ``a[i:i_end]`` and ``b[j:j_end]`` are the same bytes.

    Parameters
    ----------
    a, b : ndarray of uint8
    i, i_end, j, j_end : int

    Returns
    -------
    bool

    Examples
    --------
    >>> a = np.frombuffer(b"abab", dtype=np.uint8)
    >>> equal(a, 0, 2, a, 2, 4)
    True
    """
    return i_end - i == j_end - j and _n_common(a, i, b, j, i_end - i) == i_end - i


@compiled
def compare(a: Any, i: Any, i_end: Any, b: Any, j: Any, j_end: Any) -> Any:
    """Compare ``a[i:i_end]`` with ``b[j:j_end]`` in the order of bytes.

    Parameters
    ----------
    a, b : ndarray of uint8
    i, i_end, j, j_end : int

    Returns
    -------
    int
        Negative if the first comes before, zero if they are equal, positive if it comes after.

    Examples
    --------
    >>> a = np.frombuffer(b"abc", dtype=np.uint8)
    >>> compare(a, 0, 2, a, 0, 3)
    -1
    """
    shorter = min(i_end - i, j_end - j)
    k = _n_common(a, i, b, j, shorter)
    if k < shorter:
        return np.int64(a[i + k]) - np.int64(b[j + k])
    return (i_end - i) - (j_end - j)


@compiled
def merge_tables(a: Any, b: Any) -> Any:
    """Merge two sorted lists of distinct terms into one, and add up what is counted of them.

    Parameters
    ----------
    a, b : TermTable

    Returns
    -------
    data : ndarray of uint8
    offsets, document_frequency, counts : ndarray of int64
        Of the merged table.

    Examples
    --------
    >>> from dspectral.text.terms import TermTable
    >>> table = TermTable.of(Documents.of(["yes, no, yes"]))
    >>> merge_tables(table, table)[3]
    array([2, 4])
    """
    # Arrays by themselves: one that is reached through a table is counted as in use at every visit.
    (a_data, a_offsets), a_frequency, a_counts = a
    (b_data, b_offsets), b_frequency, b_counts = b
    n_a, n_b = a_counts.size, b_counts.size
    data = np.empty(a_data.size + b_data.size, dtype=np.uint8)
    offsets = np.zeros(n_a + n_b + 1, dtype=np.int64)
    frequency, counts = np.zeros(n_a + n_b, dtype=np.int64), np.zeros(n_a + n_b, dtype=np.int64)
    i = j = n = 0
    while i < n_a or j < n_b:
        order = -1 if j == n_b else 1
        if i < n_a and j < n_b:
            order = compare(a_data, a_offsets[i], a_offsets[i + 1], b_data, b_offsets[j], b_offsets[j + 1])
        if order <= 0:
            offsets[n + 1] = _copy(a_data, a_offsets[i], a_offsets[i + 1], data, offsets[n])
            frequency[n] += a_frequency[i]
            counts[n] += a_counts[i]
            i += 1
        if order >= 0:
            offsets[n + 1] = _copy(b_data, b_offsets[j], b_offsets[j + 1], data, offsets[n])
            frequency[n] += b_frequency[j]
            counts[n] += b_counts[j]
            j += 1
        n += 1
    # Copies, so that the room for terms that turned out to be common is given back.
    return data[: offsets[n]].copy(), offsets[: n + 1].copy(), frequency[:n].copy(), counts[:n].copy()


@compiled
def _n_common(a: Any, i: Any, b: Any, j: Any, most: Any) -> Any:
    k = 0
    while k < most and a[i + k] == b[j + k]:
        k += 1
    return k


@compiled
def _copy(source: Any, begin: Any, end: Any, data: Any, out: Any) -> Any:
    for i in range(begin, end):
        data[out + i - begin] = source[i]
    return out + end - begin


@compiled
def _gather(data: Any, begins: Any, offsets: Any) -> Any:
    taken = np.empty(offsets[-1], dtype=np.uint8)
    for i in range(begins.size):
        _copy(data, begins[i], begins[i] + offsets[i + 1] - offsets[i], taken, offsets[i])
    return taken


@compiled
def _hash_terms(terms: Any) -> Any:
    codes = np.empty(terms.offsets.size - 1, dtype=np.uint32)
    for i in range(codes.size):
        codes[i] = hash_slice(terms.data, terms.offsets[i], terms.offsets[i + 1])
    return codes
