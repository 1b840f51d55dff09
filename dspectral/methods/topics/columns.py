"""Columns of topics: words within limits of document frequency, and counts of new texts in them."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral import engine
from dspectral.inputs.rows import validate_rows
from dspectral.inputs.top_terms import Terms, resolve_column_names
from dspectral.parameters import check_option, check_real
from dspectral.store.columns import count_document_frequencies
from dspectral.store.rows import CountMatrix
from dspectral.store.vocabulary import Vocabulary, VocabularySettings
from dspectral.text.hashing import HashingSettings, hash_columns, hash_documents
from dspectral.text.stop_words import StopWords, check_stop_words, tokenize_stop_words
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.text.terms import TermTable, count_unspaced_letters, is_unsegmented
from dspectral.text.tokenizers import as_tokenizer, tokenize_documents
from dspectral.text.tokens import Tokens
from dspectral.text.weighting import TermFrequency, Weighting, inverse_document_frequency
from dspectral.types import CSRRows, Documents


class WordColumnsMixin:
    """Mixin of the columns in use, with their weights and names, and of the counts of texts in these columns."""

    n_topics: int
    tf: TermFrequency
    min_df: float
    max_df: float
    stop_words: StopWords
    n_features_in_: int

    @property
    def weighting(self) -> Weighting:
        """The fitted weighting of counts."""
        return Weighting(self.tf, self.idf_, self.columns_, "l2")

    def _learn_columns(self, X: Any, terms: "Terms | None") -> tuple[Any, int]:
        """Set the columns in use with their weights and names; return the counts and the number of passes."""
        for name in ("min_df", "max_df"):
            check_real(name, getattr(self, name), at_least=0)
        check_option("tf", self.tf, ("count", "binary", "sqrt", "log", "sublinear"))
        self.hashing_: HashingSettings | None = getattr(X, "hashing", None)
        settings = getattr(X, "provenance", {}).get("vocabulary")
        self.vocabulary_settings_ = VocabularySettings.from_record(settings) if settings else None
        if isinstance(X, Documents):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # text that "words" does not suit is tokenized again below
                table, rule = TermTable.from_block(X, tokenizer="words"), "words"
            if is_unsegmented([count_unspaced_letters(table)]):
                table, rule = TermTable.from_block(X, tokenizer="characters"), "characters"
            self.vocabulary_settings_ = VocabularySettings(tokenizer=as_tokenizer(rule))
            vocabulary = Vocabulary.from_tables([table])
            terms = vocabulary.terms
            X = encode_documents(X, TermIndex.from_terms(vocabulary.documents), tokenizer=rule)
        elif terms is None and isinstance(X, CountMatrix):
            terms = getattr(X, "kept_terms", None) or X.vocabulary
        rows = validate_rows(self, X, reset=True)
        is_store = isinstance(X, CountMatrix)
        if is_store:
            frequency, n_rows = X.document_frequency, X.n_rows
        else:
            n_rows, frequency = engine.summarize(rows, summarize_block=count_document_frequencies, name="count")
        min_documents, max_documents = VocabularySettings(min_df=self.min_df, max_df=self.max_df).limits(n_rows)
        is_used = (frequency >= max(min_documents, 1)) & (frequency <= max_documents)
        names: dict[int, str] = {}
        if terms is not None:
            column_names = resolve_column_names(terms, len(frequency))
            names = dict(zip(column_names.columns.tolist(), column_names.names, strict=True))
        is_used[self._stop_columns(None if terms is None else names)] = False
        self.columns_ = np.flatnonzero(is_used)
        self.words_ = None if terms is None else [names.get(column, "") for column in self.columns_.tolist()]
        if len(self.columns_) < self.n_topics:
            raise ValueError(
                f"n_topics={self.n_topics} must be at most {len(self.columns_)}, the number of words (of n_features = "
                f"{len(frequency)}) in {min_documents:g} to {max_documents:g} of {n_rows} documents: lower "
                f"min_df={self.min_df}, or raise max_df={self.max_df}"
            )
        self.idf_ = inverse_document_frequency(frequency[self.columns_], n_rows)
        return rows, 0 if is_store else 1

    def _stop_columns(self, names: dict[int, str] | None) -> list[int]:
        """Return the columns of the stop words, and of the pairs of words that contain one."""
        words, settings = check_stop_words(self.stop_words), self.hashing_ or self.vocabulary_settings_
        columns: list[int] = []
        if not words:
            return columns
        if settings is not None:
            rule = {name: getattr(settings, name) for name in ("lowercase", "tokenizer", "normalize")}
            tokenize: Callable[[Documents], Tokens] = partial(tokenize_documents, **rule)
            low, high = settings.ngram_range
            terms = tokenize_stop_words(words, tokenize, (low if self.hashing_ is not None else 1, high))
            if self.hashing_ is not None:
                columns.extend(map(int, hash_columns(terms, self.hashing_.n_features)[0]))
            words = tuple(terms.text(i).decode() for i in range(terms.n_documents))
        elif names is None:
            raise ValueError(
                f"stop_words={words!r:.60} need names of columns, but X has none: pass names to fit(X, terms=...)"
            )
        stop_words = set(words)
        for column, name in (names or {}).items():
            if name in stop_words or not stop_words.isdisjoint(name.split(" ")):
                columns.append(column)
        return columns

    def _count_words(self, documents: Documents) -> CSRRows:
        """Return the counts of words in new texts, counted as in ``fit``."""
        if self.hashing_ is not None:
            return hash_documents(documents, self.hashing_)
        settings = self.vocabulary_settings_
        if settings is None or self.words_ is None:
            raise ValueError("X must be counts, not texts: the model was fitted on counts without names of words")
        index = TermIndex.from_terms(Documents.from_strings(self.words_))
        counts = encode_documents(
            documents, index, settings.ngram_range, settings.lowercase, settings.tokenizer, settings.normalize
        )
        entries = (counts.data, self.columns_[counts.indices], counts.indptr)
        return sparse.csr_array(entries, shape=(counts.shape[0], self.n_features_in_))

    def _term_columns(self) -> tuple[NDArray[np.int64], int]:
        return self.columns_, self.n_features_in_

    def _term_names(self) -> "Terms | None":
        if self.words_ is None:
            return None
        return {column: word for column, word in zip(self.columns_.tolist(), self.words_, strict=True) if word}
