"""Exact vocabularies: n-grams as columns, sorted by falling document frequency; and stored term samples."""

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.registry import register_class
from dspectral.store.arrays import compute_digest, read_array, write_array
from dspectral.store.columns import TERMS, Columns, columns_from_names
from dspectral.store.location import Location, damage_error
from dspectral.text.hashing import replace_tokenizer_by_name
from dspectral.text.term_bytes import take_terms
from dspectral.text.term_index import TermIndex
from dspectral.text.term_sample import TermSample
from dspectral.text.terms import TermTable
from dspectral.text.tokenizers import TokenizerLike
from dspectral.types import Documents, Int64s

KEEP_TERMS = "keep_terms"
"""Entry of a store's provenance: the number of stored terms of hashed columns."""
_INDEX_LOCK = Lock()
_TERM_INDEXES: dict[str, TermIndex] = {}
"""Per-process cache of the latest vocabulary index, keyed by build call.

Each process reads the index once from the store, instead of receiving it with every task.
"""


_COLUMNS: dict[int, Columns] = {}
"""Columns of the two most recently read vocabularies, by digest; each fit and transform compares them."""


@register_class()
class VocabularySettings(NamedTuple):
    """Settings of an exact vocabulary.

    Attributes
    ----------
    ngram_range : tuple of int, default=(1, 1)
        Smallest and largest number of words in an n-gram, from 1 to 3.
    lowercase : bool, default=True
        Whether to convert text to lower case.
    min_df, max_df : int or float, default=1 and 1.0
        Smallest and largest document frequency of an n-gram; an int is a number of documents, a float a fraction.
    max_features : int, optional
        Maximum number of n-grams, selected by document frequency; all by default.
    n_partitions : int, default=8
        Number of partitions of the n-grams, merged one after the other; more partitions need less memory.
    tokenizer : callable or str, optional
        Function from a text to its tokens, or its name ``"module:function"``, which is stored; or ``"words"`` or
        ``"characters"``, as for :class:`dspectral.NgramHashing`. By default scikit-learn's ``token_pattern``.
    normalize : {"NFC"}, optional
        Unicode normalization form of the text. The library's own tokenizers always normalize.

    Examples
    --------
    >>> VocabularySettings((1, 2), min_df=0.01).limits(500)
    (5.0, 500.0)
    """

    ngram_range: tuple[int, int] = (1, 1)
    lowercase: bool = True
    min_df: int | float = 1
    max_df: int | float = 1.0
    max_features: int | None = None
    n_partitions: int = 8
    tokenizer: TokenizerLike | None = None
    normalize: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON values.

        Returns
        -------
        dict
            Values by parameter; a tokenizer is replaced by its name.
        """
        return replace_tokenizer_by_name(self._asdict())

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "VocabularySettings":
        """Return the settings that :meth:`record` describes.

        Parameters
        ----------
        record : dict
            Values in the provenance of a store.

        Returns
        -------
        VocabularySettings
            The settings.
        """
        return cls(**{**record, "ngram_range": tuple(record["ngram_range"])})

    def limits(self, n_documents: int) -> tuple[float, float]:
        """Return the smallest and largest document frequency of a column.

        Parameters
        ----------
        n_documents : int
            Number of documents.

        Returns
        -------
        min_documents : float
            Minimum document frequency, inclusive.
        max_documents : float
            Maximum document frequency, inclusive.
        """
        min_documents, max_documents = (
            float(bound) * n_documents if not isinstance(bound, Integral) else bound
            for bound in (self.min_df, self.max_df)
        )
        return min_documents, max_documents


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """N-grams of the columns, sorted by falling document frequency and then by bytes.

    Attributes
    ----------
    documents : Documents
        The n-grams, as concatenated UTF-8 bytes.
    document_frequency : ndarray of int64, shape (n,)
        Number of documents with each n-gram.
    counts : ndarray of int64, shape (n,)
        Number of occurrences of each n-gram.

    Examples
    --------
    >>> table = TermTable.from_block(Documents.from_strings(["to be or not to be", "be"]))
    >>> vocabulary = Vocabulary.from_tables([table], max_features=2)
    >>> vocabulary.terms, vocabulary.index("be")
    (['be', 'not'], 0)
    """

    documents: Documents
    document_frequency: Int64s
    counts: Int64s

    def __repr__(self) -> str:
        first = ", ".join(repr(self.documents.text(i).decode()) for i in range(min(3, len(self.counts))))
        return f"Vocabulary({len(self.counts)} terms: {first}{', ...' if len(self.counts) > 3 else ''})"

    @classmethod
    def from_tables(cls, tables: list[TermTable], *, max_features: int | None = None) -> "Vocabulary":
        """Merge disjoint term tables into a vocabulary of at most ``max_features`` terms."""
        # The merged table is in byte order, and the stable sort keeps this order for equal frequencies.
        merged = tables[0].merge(*tables[1:])
        order = np.argsort(-merged.document_frequency, kind="stable")[:max_features]
        terms = take_terms(merged.terms, order)
        return cls(terms, merged.document_frequency[order], merged.counts[order])

    @property
    def terms(self) -> list[str]:
        """N-grams in the order of columns."""
        return [self.documents.text(i).decode() for i in range(self.documents.n_documents)]

    def index(self, term: str) -> int:
        """Return the column of an n-gram; the first call builds a dictionary of all terms.

        Parameters
        ----------
        term : str
            The n-gram, with single spaces between words.

        Returns
        -------
        int
            The column, from 0.
        """
        columns = self._columns
        if term not in columns:
            raise KeyError(f"{term!r} is not one of the {len(columns)} terms of the vocabulary")
        return columns[term]

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms)}


def get_vocabulary_path(generation: int) -> str:
    """Return the path of the vocabulary of a store, by the generation of its first rows."""
    return f"vocabulary-{generation:04d}" if generation else "vocabulary"


def write_vocabulary(location: Location, path: str, vocabulary: Vocabulary, **facts: str) -> None:
    """Write a vocabulary into a store; its completion marker, with ``facts``, is written last."""
    parts: dict[str, NDArray[Any]] = {
        "terms": vocabulary.documents.data,
        "offsets": vocabulary.documents.offsets,
        "document_frequency": vocabulary.document_frequency,
        "counts": vocabulary.counts,
    }
    for part, values in parts.items():
        write_array(location, f"{path}/{part}", values)
    digest = compute_digest(*parts.values())
    location.write_attributes(path, {"n_terms": vocabulary.documents.n_documents, "digest": digest, **facts})


def find_vocabulary(location: Location, path: str) -> Vocabulary | None:
    """Read the vocabulary of a possibly unfinished store; None if it has none."""
    return read_vocabulary(location, path) if location.read_attributes(path) else None


def read_vocabulary(location: Location, path: str) -> Vocabulary:
    """Read the vocabulary of a store and verify its digest."""
    names = "terms", "offsets", "document_frequency", "counts"
    terms, offsets, document_frequency, counts = parts = [read_array(location, f"{path}/{name}") for name in names]
    digest = (location.read_attributes(path) or {}).get("digest")
    if digest != compute_digest(*parts):
        raise damage_error(location, path, "its content does not match its digest")
    return Vocabulary(Documents(terms, offsets), document_frequency, counts)


def vocabulary_columns(location: Location, path: str) -> Columns | None:
    """Return the terms of a store's vocabulary as columns; None if the store has no vocabulary."""
    digest = (location.read_attributes(path) or {}).get("digest")
    if digest is None:
        return None
    with _INDEX_LOCK:
        if digest not in _COLUMNS:
            columns = columns_from_names(TERMS, read_vocabulary(location, path).terms)
            for other in list(_COLUMNS)[:-1]:
                del _COLUMNS[other]
            _COLUMNS[digest] = columns
        return _COLUMNS[digest]


def write_term_sample(location: Location, path: str, sample: TermSample) -> None:
    """Write a sample of terms with its digest into a group of the store."""
    packed = np.concatenate([[0, sample.error], pack_terms(sample.table)])
    packed[0] = compute_digest(packed[1:])
    write_array(location, f"{path}/terms", packed)


def read_term_sample(location: Location, path: str, size: int) -> TermSample:
    """Read a sample of at most ``size`` terms and verify its digest."""
    packed = read_array(location, f"{path}/terms")
    if not len(packed) or packed[0] != compute_digest(packed[1:]):
        raise damage_error(location, path, "its terms do not match their digest")
    return TermSample(unpack_terms(packed[2:]), size, int(packed[1]))


def pack_terms(table: TermTable) -> Int64s:
    """Pack a term table into one int64 array: 3 n + 2 numbers, then the padded text."""
    # One array needs one file per partition and block instead of four.
    data = table.terms.data
    padded = np.zeros(-(-len(data) // 8) * 8, dtype=np.uint8)
    padded[: len(data)] = data
    parts = [[len(table.counts)], table.terms.offsets, table.document_frequency, table.counts]
    return np.concatenate([*(np.asarray(part, dtype=np.int64) for part in parts), padded.view(np.int64)])


def unpack_terms(packed: Int64s) -> TermTable:
    """Unpack a term table of :func:`pack_terms`."""
    n = int(packed[0])
    offsets, frequency, counts, text = np.split(packed[1:], [n + 1, 2 * n + 1, 3 * n + 1])
    return TermTable(Documents(text.view(np.uint8)[: offsets[-1]], offsets), frequency, counts)


def get_term_index(location: Location, path: str, call: str) -> TermIndex:
    """Return the term index of a store's vocabulary, cached per process and build."""
    with _INDEX_LOCK:  # one thread reads, the others wait
        if call not in _TERM_INDEXES:
            # A long-lived worker runs many builds; only the latest index stays in memory.
            _TERM_INDEXES.clear()
            _TERM_INDEXES[call] = TermIndex.from_terms(read_vocabulary(location, path).documents)
        return _TERM_INDEXES[call]
