"""Exact vocabularies, which n-grams are columns in order of falling document frequency; and terms that are kept."""

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.sparse_products import offset_fault
from dspectral.registry import saved
from dspectral.store.arrays import digest_of, read_array, write_array
from dspectral.store.columns import TERMS, Columns, named_columns
from dspectral.store.facts import vocabulary_card
from dspectral.store.location import Location, StoreError
from dspectral.text.hashing import with_tokenizer_name
from dspectral.text.term_bytes import take
from dspectral.text.term_index import TermIndex
from dspectral.text.term_sample import TermSample
from dspectral.text.terms import TermTable
from dspectral.text.tokenizers import TokenizerLike
from dspectral.types import Documents, Int64s

PATH = "vocabulary"
KEEP_TERMS = "keep_terms"
"""Entry of a store's provenance: how many terms of hashed columns have names, missing where none do."""
_INDEX_LOCK = Lock()
_TERM_INDEXES: dict[str, TermIndex] = {}
"""Per-process cache of the vocabulary index, keyed by build call; only the latest is kept.

Read from the store once per process instead of being pickled into every task.
"""


_COLUMNS: dict[int, Columns] = {}
"""The columns of the two vocabularies that were read last, by their digests: each fit and transform compares them."""


@saved
class VocabularySettings(NamedTuple):
    """Settings of an exact vocabulary: which n-grams become columns.

    Attributes
    ----------
    ngram_range : tuple of int, default=(1, 1)
        Fewest and most words of an n-gram, within 1 to 3.
    lowercase : bool, default=True
        Whether the case of the text is lowered first.
    min_document_frequency, max_document_frequency : int or float, default=1 and 1.0
        Fewest and most documents that an n-gram may be in; an int is a number of documents, a float a share.
    max_features : int, optional
        Number of n-grams to keep, those in the most documents; all by default.
    n_partitions : int, default=8
        Number of parts in which n-grams are counted one after the other; more take less memory.
    tokenizer : callable or str, optional
        Function from a text to its tokens, or its name ``"module:function"``, by which it is kept; or ``"words"`` or
        ``"characters"``, as for :class:`dspectral.NgramHashing`. By default scikit-learn's ``token_pattern``.
    normalize : {"NFC"}, optional
        Unicode's form that text is brought to first. The library's own tokenizers do so in any case.

    Examples
    --------
    >>> VocabularySettings((1, 2), min_document_frequency=0.01).limits(500)
    (5.0, 500.0)
    """

    ngram_range: tuple[int, int] = (1, 1)
    lowercase: bool = True
    min_document_frequency: int | float = 1
    max_document_frequency: int | float = 1.0
    max_features: int | None = None
    n_partitions: int = 8
    tokenizer: TokenizerLike | None = None
    normalize: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the settings as a store keeps them.

        Returns
        -------
        dict
            Values by name; the tokenizer is there by its name, and only if there is one.
        """
        return with_tokenizer_name(self._asdict())

    def limits(self, n_documents: int) -> tuple[float, float]:
        """Return the fewest and the most documents that a column may be in.

        Parameters
        ----------
        n_documents : int
            Number of documents in all.

        Returns
        -------
        least : float
            Fewest documents, included.
        most : float
            Most documents, included.
        """
        least, most = (
            float(bound) * n_documents if not isinstance(bound, Integral) else bound
            for bound in (self.min_document_frequency, self.max_document_frequency)
        )
        return least, most


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """The n-grams behind the columns: column 0 is in the most documents; equal ones are in byte order.

    Attributes
    ----------
    documents : Documents
        The n-grams, as UTF-8 bytes one after the other.
    document_frequency : ndarray of int64, shape (n,)
        Number of documents that each n-gram is in.
    counts : ndarray of int64, shape (n,)
        Number of times that each n-gram occurs.

    Examples
    --------
    >>> table = TermTable.of(Documents.of(["to be or not to be", "be"]))
    >>> vocabulary = Vocabulary.of([table], max_features=2)
    >>> vocabulary.terms, vocabulary.index("be")
    (['be', 'not'], 0)
    """

    documents: Documents
    document_frequency: Int64s
    counts: Int64s

    def __repr__(self) -> str:
        first = ", ".join(repr(self.documents.text(i).decode()) for i in range(min(3, len(self.counts))))
        return f"Vocabulary({len(self.counts)} terms: {first}{', ...' if len(self.counts) > 3 else ''})"

    def _repr_html_(self) -> str:
        return vocabulary_card(self.documents, self.counts)

    @classmethod
    def of(cls, tables: list[TermTable], *, max_features: int | None = None) -> "Vocabulary":
        """Order the terms of tables that share none by falling document frequency, and keep so many."""
        # A merged table is in byte order; the stable sort keeps that order among terms of equal frequency.
        merged = tables[0].merge(*tables[1:])
        order = np.argsort(-merged.document_frequency, kind="stable")[:max_features]
        terms = take(merged.terms, order)
        return cls(terms, merged.document_frequency[order], merged.counts[order])

    @property
    def terms(self) -> list[str]:
        """List of the n-grams, in the order of columns."""
        return [self.documents.text(i).decode() for i in range(self.documents.n_documents)]

    def index(self, term: str) -> int:
        """Return the column of an n-gram; the first call makes a dictionary of all.

        Parameters
        ----------
        term : str
            The n-gram: words joined by single spaces.

        Returns
        -------
        int
            The column, from 0.
        """
        columns = self._columns
        if term not in columns:
            raise KeyError(f"{term!r} is not among the {len(columns)} terms of the vocabulary")
        return columns[term]

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms)}

    def term_index(self) -> TermIndex:
        """Return the look-up table that encodes documents.

        Returns
        -------
        TermIndex
            A hash table of all n-grams, about 24 bytes for each beside its text.
        """
        return TermIndex.of(self.documents)


def write_vocabulary(where: Location, vocabulary: Vocabulary, **facts: str) -> None:
    """Write a vocabulary into a store, its finished mark with some facts last."""
    store = where.open(read_only=False)
    parts: dict[str, NDArray[Any]] = {
        "terms": vocabulary.documents.data,
        "offsets": vocabulary.documents.offsets,
        "document_frequency": vocabulary.document_frequency,
        "counts": vocabulary.counts,
    }
    for part, values in parts.items():
        write_array(store, f"{PATH}/{part}", values)
    digest = digest_of(*parts.values())
    where.mark(PATH, {"n_terms": vocabulary.documents.n_documents, "digest": digest, **facts})


def find_vocabulary(where: Location) -> Vocabulary | None:
    """Read the vocabulary of a store that may be unfinished, or return None if it has none yet."""
    return read_vocabulary(where) if where.attributes(PATH) else None


def read_vocabulary(where: Location) -> Vocabulary:
    """Read the vocabulary of a store."""
    store = where.open()
    terms, offsets, document_frequency, counts = parts = [
        read_array(where, store, PATH, part) for part in ("terms", "offsets", "document_frequency", "counts")
    ]
    digest = (where.attributes(PATH) or {}).get("digest")
    if digest != digest_of(*parts) or offset_fault(offsets, len(terms)):
        raise StoreError(
            f"store {where.url}, {PATH}: the vocabulary is not what was written; build the store again"
        )
    return Vocabulary(Documents(terms, offsets), document_frequency, counts)


def vocabulary_columns(where: Location) -> Columns | None:
    """Return the terms of a store's vocabulary as columns, None if the store has no vocabulary."""
    digest = (where.attributes(PATH) or {}).get("digest")
    if digest is None:
        return None
    with _INDEX_LOCK:
        if digest not in _COLUMNS:
            columns = named_columns(TERMS, read_vocabulary(where).terms)
            for other in list(_COLUMNS)[:-1]:
                del _COLUMNS[other]
            _COLUMNS[digest] = columns
        return _COLUMNS[digest]


def write_sample(where: Location, path: str, sample: TermSample) -> None:
    """Write a sample of terms, its digest first, into a group of the store."""
    packed = np.concatenate([[0, sample.error], pack_terms(sample.table)])
    packed[0] = digest_of(packed[1:])
    write_array(where.open(read_only=False), f"{path}/terms", packed)


def read_sample(where: Location, path: str, size: int) -> TermSample:
    """Read a sample of so many terms at most."""
    packed = read_array(where, where.open(), path, "terms")
    if not len(packed) or packed[0] != digest_of(packed[1:]):
        raise StoreError(
            f"store {where.url}, {path}: its terms are not what was written; build the store again"
        )
    return TermSample(unpack_terms(packed[2:]), size, int(packed[1]))


def pack_terms(table: TermTable) -> Int64s:
    """Return a table as one array of 3 n + 2 numbers and its text, padded to whole ones."""
    # One array of one type: a file for each part of each block, instead of four.
    data = table.terms.data
    padded = np.zeros(-(-len(data) // 8) * 8, dtype=np.uint8)
    padded[: len(data)] = data
    parts = [[len(table.counts)], table.terms.offsets, table.document_frequency, table.counts]
    return np.concatenate([*(np.asarray(part, dtype=np.int64) for part in parts), padded.view(np.int64)])


def unpack_terms(packed: Int64s) -> TermTable:
    """Return the table of :func:`pack_terms`."""
    n = int(packed[0])
    offsets, frequency, counts, text = np.split(packed[1:], [n + 1, 2 * n + 1, 3 * n + 1])
    return TermTable(Documents(text.view(np.uint8)[: offsets[-1]], offsets), frequency, counts)


def index_for_call(where: Location, call: str) -> TermIndex:
    """Return the look-up table of a store's vocabulary; a process reads it once for each build."""
    with _INDEX_LOCK:  # the other threads wait for the first one's
        if call not in _TERM_INDEXES:
            # A long-lived worker meets many builds: without this it would hold the vocabulary of each of them.
            _TERM_INDEXES.clear()
            _TERM_INDEXES[call] = read_vocabulary(where).term_index()
        return _TERM_INDEXES[call]
