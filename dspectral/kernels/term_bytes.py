"""Terms as slices of bytes: comparing, gathering and merging sorted lists of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.kernels.compiled import compiled, read_only
from dspectral.kernels.murmur import hash_slice
from dspectral.types import Documents


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
    array([         0, 2892594282], dtype=uint32)
    """
    codes: NDArray[np.uint32] = _hash_terms(read_only(terms.data), read_only(terms.offsets))
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
    if i_end - i != j_end - j:
        return False
    for k in range(i_end - i):
        if a[i + k] != b[j + k]:
            return False
    return True


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
    for k in range(min(i_end - i, j_end - j)):
        difference = np.int64(a[i + k]) - np.int64(b[j + k])
        if difference != 0:
            return difference
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
    >>> from dspectral.kernels.terms import TermTable
    >>> table = TermTable.of(Documents.of(["yes, no, yes"]))
    >>> merge_tables(table, table)[3]
    array([2, 4])
    """
    n_a, n_b = a.counts.size, b.counts.size
    data = np.empty(a.terms.data.size + b.terms.data.size, dtype=np.uint8)
    offsets = np.zeros(n_a + n_b + 1, dtype=np.int64)
    document_frequency, counts = np.zeros(n_a + n_b, dtype=np.int64), np.zeros(n_a + n_b, dtype=np.int64)
    i = j = n = 0
    while i < n_a or j < n_b:
        order = _order(a.terms, i, b.terms, j)
        if order <= 0:
            offsets[n + 1] = _copy(a.terms.data, a.terms.offsets[i], a.terms.offsets[i + 1], data, offsets[n])
            document_frequency[n] += a.document_frequency[i]
            counts[n] += a.counts[i]
            i += 1
        if order >= 0:
            offsets[n + 1] = _copy(b.terms.data, b.terms.offsets[j], b.terms.offsets[j + 1], data, offsets[n])
            document_frequency[n] += b.document_frequency[j]
            counts[n] += b.counts[j]
            j += 1
        n += 1
    return data[: offsets[n]].copy(), offsets[: n + 1].copy(), document_frequency[:n].copy(), counts[:n].copy()


@compiled
def _order(a: Any, i: Any, b: Any, j: Any) -> Any:
    """Compare term i of one list with term j of another; a list that is at its end comes after."""
    if i == a.offsets.size - 1:
        return 1
    if j == b.offsets.size - 1:
        return -1
    return compare(a.data, a.offsets[i], a.offsets[i + 1], b.data, b.offsets[j], b.offsets[j + 1])


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
def _hash_terms(data: Any, offsets: Any) -> Any:
    codes = np.empty(offsets.size - 1, dtype=np.uint32)
    for i in range(codes.size):
        codes[i] = hash_slice(data, offsets[i], offsets[i + 1])
    return codes
