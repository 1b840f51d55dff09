"""Topics of documents, their words and their most typical documents, out of core."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral import engine
from dspectral.decomposition.spectrum import Plan, reads_of, spectrum
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.parameters import RandomState, check_integer, check_option, check_real, resolve_seed
from dspectral.inputs.rows import LazyOutputMixin, checked_rows, row_dtype
from dspectral.inputs.texts import TextColumn, TextsOrCounts, as_documents, is_texts
from dspectral.inputs.top_terms import Terms, TopTermsMixin, names_of_columns
from dspectral.methods.topics.rotation import Axes, Sample, TopicSums, shares, varimax
from dspectral.registry import Array, has_arrays, saved
from dspectral.store.coordinates import write_rows
from dspectral.store.rows import OpenedCounts
from dspectral.store.vocabulary import Vocabulary, VocabularySettings
from dspectral.store.weighted_rows import counts_of, frequencies_of
from dspectral.text.hashing import HashingSettings, hash_columns, hash_documents
from dspectral.text.stop_words import StopWords, check_stop_words, stop_terms
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.text.terms import TermTable, are_clauses, count_letters
from dspectral.text.tokenizers import as_tokenizer, words_of
from dspectral.text.tokens import Tokens
from dspectral.text.weighting import TermFrequency, Weighting, inverse_document_frequency
from dspectral.types import CSRRows, Documents, FloatArray, KeepPath, Rows

if TYPE_CHECKING:
    from typing_extensions import TypeIs

N_PASSES = 5
"""Number of times that the decomposition reads the rows."""
MOST_ROTATED = 1 << 15
"""Most rows that the rotation is found on."""


class TopDocument(NamedTuple):
    """A document that is typical of a topic.

    Attributes
    ----------
    row : int
        Number of the document, from 0.
    cosine : float
        Cosine of the document with the topic, 1 where it is about nothing else.
    text : str or None
        The document, where ``fit`` was given texts or a store that keeps them.
    """

    row: int
    cosine: float
    text: str | None


@has_arrays(
    {
        "columns_": Array("n_words", "i", at_least=0, below="n_features_in_", order="rising"),
        "words_": Array("n_words", "", optional=True),
        "idf_": Array("n_words"),
        "axes_": Array("r n_words"),
        "singular_values_": Array("r", at_least=0),
        "rotation_": Array("r k"),
        "components_": Array("k n_words", at_least=0),
        "topic_shares_": Array("k", at_least=0),
        "document_rows_": Array("k n", "i", at_least=-1, below="n_documents_"),
        "document_cosines_": Array("k n"),
    }
)
@saved
class Topics(
    FittedFactsMixin,
    TopTermsMixin,
    LazyOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Find the topics of documents, with their words and most typical documents.

    Rows are tf-idf of unit length over words that are neither rare nor everywhere. Their leading singular vectors are
    rotated by varimax until each document lies near few of them; a topic's words are those of the documents that are
    about nothing else.

    Parameters
    ----------
    n_topics : int, default=50
        Number of topics, k.
    tf : {"sublinear", "count", "binary", "sqrt", "log"}, default="sublinear"
        Function of a count, as for :class:`TfidfWeighting`.
    min_df : int or float, default=5
        Fewest documents that a word must be in, an int for a number and a float for a share.
    max_df : int or float, default=0.1
        Most documents that a word may be in. Function words of any language are above a tenth.
    stop_words : {"english"}, collection of str or None, default=()
        Further words to leave out: scikit-learn's English ones, or a list, which is cut as the texts were. Of a hashed
        store their columns are left out, with whatever else is hashed there; columns of other counts must have names.
        N-grams that hold a stop word stay.
    n_top_documents : int, default=10
        Number of typical documents that are kept of each topic.
    random_state : int, RandomState or None, default=0
        Seed of the singular vectors.

    Attributes
    ----------
    components_ : ndarray of float64, shape (n_topics, n_words)
        Share of each word in a topic; magnitudes of a row sum to 1.
    topic_shares_ : ndarray of float64, shape (n_topics,)
        Mean share of each topic over the documents, falling.
    columns_ : ndarray of int64, shape (n_words,)
        Columns of the counts that are within the limits.
    words_ : list of str, shape (n_words,), or None
        The words behind these columns, empty where a hashed one has no name; None where there are no names.
    singular_values_ : ndarray of float64, shape (n_topics,)
        Singular values of the weighted rows, before they are rotated.
    n_documents_ : int
        Number of documents.
    n_passes_ : int
        Number of times that the rows were read.
    n_features_in_ : int
        Number of columns of the counts.

    Notes
    -----
    Two passes more than :class:`TruncatedSVD`, three over counts that are no store: one for a sample of at most
    32,768 rows, on which the rotation is found, and one for words and documents, of 8 k (d + 20) bytes a block.

    References
    ----------
    Deerwester et al. 1990, "Indexing by latent semantic analysis"; Rohe and Zeng 2023, "Vintage factor analysis with
    varimax performs statistical inference".

    Examples
    --------
    >>> texts = ["cats purr", "cats sleep and purr", "dogs bark", "dogs bark and run"] * 5 + ["dogs bark"]
    >>> topics = Topics(2, max_df=0.6, stop_words=["and"]).fit(texts)
    >>> topics.top_words(2)
    [['bark', 'dogs'], ['cats', 'purr']]
    """

    components_: NDArray[np.float64]
    n_features_in_: int

    def __init__(
        self,
        n_topics: int = 50,
        *,
        tf: TermFrequency = "sublinear",
        min_df: float = 5,
        max_df: float = 0.1,
        stop_words: StopWords = (),
        n_top_documents: int = 10,
        random_state: RandomState = 0,
    ) -> None:
        self.n_topics = n_topics
        self.tf = tf
        self.min_df = min_df
        self.max_df = max_df
        self.stop_words = stop_words
        self.n_top_documents = n_top_documents
        self.random_state = random_state

    @engine.emits_events
    def fit(
        self, X: TextsOrCounts, y: object = None, *, terms: "Terms | None" = None, keep: KeepPath = None
    ) -> Self:
        """Find the topics.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts in memory, whose words are those of :func:`dspectral.build_corpus`, or pairs of letters where a script
            has no blanks; or counts of documents, shape (n_documents, n_columns).
        y : ignored
            Accepted as scikit-learn passes it.
        terms : store, KeptTerms, Vocabulary, sequence of str, dict or vectorizer, default=None
            Names of the columns, as for :func:`dspectral.top_terms`; by default those that a store knows.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, or fewer words than topics are within the limits.
        """
        n_topics = check_integer("n_topics", self.n_topics, at_least=1)
        n_nearest = check_integer("n_top_documents", self.n_top_documents, at_least=1)
        documents = as_documents(X) if _are_texts(X) else None
        counts, n_counted = self._learn_columns(X if documents is None else documents, terms)
        rows = self._weighted(counts)
        self.random_state_ = resolve_seed(self.random_state)
        plan = Plan(n_topics, n_passes=N_PASSES, seed=self.random_state_, dtype=row_dtype(rows.dtype))
        engine.expect_passes(reads_of(rows, plan) + 2, anew=True)
        found = spectrum(rows, plan)
        sizes = np.sqrt(found.values)
        there = sizes > np.finfo(np.float32).eps * sizes.max(initial=0.0)
        self.singular_values_ = sizes[there]
        axes = Axes(found.axes[there], self.singular_values_, np.eye(int(there.sum())))
        n_rows = rows.shape[0]
        numbers = engine.row_numbers(rows)
        step = -(-n_rows // MOST_ROTATED)
        sample = engine.summarize(rows, numbers, of=partial(Sample.of, axes=axes, step=step), name="sample")
        axes = axes._replace(rotation=varimax(sample.coordinates / axes.sizes))
        of = partial(TopicSums.of, axes=axes, n_nearest=min(n_nearest, n_rows))
        self._keep(axes, engine.summarize(rows, numbers, of=of, name="topics"), n_rows)
        self.document_texts_ = self._texts(X if documents is None else documents)
        self.n_passes_ = n_counted + found.n_passes + 2
        return self

    def _keep(self, axes: Axes, sums: TopicSums, n_rows: int) -> None:
        """Order the topics by their share of the text, and keep what is asked of them later."""
        order = np.argsort(-sums.share, kind="stable")
        self.axes_, self.rotation_ = axes.components, axes.rotation[:, order]
        # Hashed counts have signs, the same for all of a word, and there are no others: sizes are all that counts.
        words = np.abs(sums.words[order])
        totals = words.sum(axis=1, keepdims=True)
        self.components_ = np.divide(words, totals, out=np.zeros_like(words), where=totals > 0)
        self.topic_shares_ = sums.share[order] / n_rows
        self.document_rows_, self.document_cosines_ = sums.nearest[order], sums.cosines[order]
        self.n_documents_ = n_rows

    def _texts(self, X: Any) -> list[list[str]] | None:
        """Return the most typical documents of each topic, where they are there."""
        rows = [[row for row in of_topic if row >= 0] for of_topic in self.document_rows_.tolist()]
        if isinstance(X, Documents):
            return [[X.text(row).decode() for row in of_topic] for of_topic in rows]
        if not getattr(X, "provenance", {}).get("keep_texts"):
            return None
        return [X.text(of_topic) for of_topic in rows]

    def transform(self, X: TextsOrCounts, *, out: str | None = None) -> Any:
        """Return the share of each topic in documents.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts, if ``fit`` was given texts or a store; or counts over the same columns as in ``fit``.
        out : str, optional
            Where to write the shares, as :func:`dspectral.write_coordinates` writes coordinates.

        Returns
        -------
        ndarray or Dask array of float64, shape (n_documents, n_topics)
            Shares that sum to 1, or zeros where a document holds no known word; lazy for lazy counts. With ``out``
            Coordinates.
        """
        return self._mapped(X, _shares_of, "topic-shares", out)

    def coordinates(self, X: TextsOrCounts, *, out: str | None = None) -> Any:
        """Return documents along the singular vectors, in which :func:`dspectral.nearest` compares them.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts or counts, as for :meth:`transform`.
        out : str, optional
            Where to write them, as :func:`dspectral.write_coordinates` does.

        Returns
        -------
        ndarray or Dask array of float64, shape (n_documents, n_topics)
            Coordinates of the weighted rows; lazy for lazy counts. With ``out`` Coordinates.
        """
        return self._mapped(X, _coordinates_of, "coordinates", out)

    def _mapped(
        self, X: TextsOrCounts, function: Callable[..., FloatArray], name: str, out: str | None
    ) -> Any:
        check_is_fitted(self)
        counts = self._counted(as_documents(X)) if _are_texts(X) else checked_rows(self, X, reset=False)
        axes = Axes(self.axes_, self.singular_values_, self.rotation_)
        of = partial(function, weighting=self.weighting, axes=axes)
        Z = engine.map_rows(counts, of, n_columns=len(self.components_), name=name)
        return Z if out is None else write_rows(Z, out)

    def top_words(self, n: int = 10) -> list[list[str]]:
        """Return the words that are frequent in each topic and rarer in the rest of the text.

        Parameters
        ----------
        n : int, default=10
            Number of words of a topic.

        Returns
        -------
        list of list of str
            The words, that of the largest p sqrt(log(p / q)) first, p and q being its shares in the topic and in all
            text.

        Raises
        ------
        ValueError
            If the columns have no names: ``top_terms(terms=...)`` takes them.
        """
        return [[word for word, _ in topic] for topic in self.top_terms(n=n)]

    def top_documents(self, n: int = 10) -> list[list[TopDocument]]:
        """Return the most typical documents of each topic.

        Parameters
        ----------
        n : int, default=10
            Number of documents of a topic, at most ``n_top_documents``.

        Returns
        -------
        list of list of TopDocument
            Row, cosine, and text where there is one; the most typical first.
        """
        check_is_fitted(self)
        found = []
        for topic, (rows, cosines) in enumerate(
            zip(self.document_rows_, self.document_cosines_, strict=True)
        ):
            texts = [None] * len(rows) if self.document_texts_ is None else self.document_texts_[topic]
            documents = zip(rows.tolist(), cosines.tolist(), texts, strict=False)
            found.append([TopDocument(*one) for one in documents if one[0] >= 0][:n])
        return found

    @property
    def weighting(self) -> Weighting:
        """The weighting of counts that was learned."""
        return Weighting(self.tf, self.idf_, self.columns_, "l2")

    def _learn_columns(self, X: Any, terms: "Terms | None") -> tuple[Any, int]:
        """Keep the columns within the limits, their weights and names; return the counts and the passes made."""
        for name in ("min_df", "max_df"):
            check_real(name, getattr(self, name), at_least=0)
        check_option("tf", self.tf, ("count", "binary", "sqrt", "log", "sublinear"))
        self.hashing_: HashingSettings | None = getattr(X, "hashing", None)
        self.vocabulary_settings_ = _vocabulary_settings(X)
        if isinstance(X, Documents):
            table = TermTable.of(X, tokenizer="words")
            rule = "words"
            if are_clauses([count_letters(table)]):
                table, rule = TermTable.of(X, tokenizer="characters"), "characters"
            self.vocabulary_settings_ = VocabularySettings(tokenizer=as_tokenizer(rule))
            vocabulary = Vocabulary.of([table])
            terms = vocabulary.terms
            X = encode_documents(X, vocabulary.term_index(), tokenizer=rule)
        elif terms is None and isinstance(X, OpenedCounts):
            terms = getattr(X, "kept_terms", None) or X.vocabulary
        rows = checked_rows(self, X, reset=True)
        known = isinstance(X, OpenedCounts)
        if known:
            frequency, n_rows = X.document_frequency, X.n_rows
        else:
            n_rows, frequency = engine.summarize(rows, of=frequencies_of, name="count")
        least, most = VocabularySettings(
            min_document_frequency=self.min_df, max_document_frequency=self.max_df
        ).limits(n_rows)
        kept = (frequency >= max(least, 1)) & (frequency <= most)
        names: dict[int, str] = {}
        if terms is not None:
            named = names_of_columns(terms, len(frequency))
            names = dict(zip(named.columns.tolist(), named.names, strict=True))
        kept[self._stop_columns(None if terms is None else names)] = False
        self.columns_ = np.flatnonzero(kept)
        self.words_ = None if terms is None else [names.get(column, "") for column in self.columns_.tolist()]
        if len(self.columns_) < self.n_topics:
            raise ValueError(
                f"n_topics is {self.n_topics}, but of n_features = {len(frequency)} words only {len(self.columns_)} "
                f"are in {least:g} to {most:g} of {n_rows} documents: lower min_df={self.min_df} or raise "
                f"max_df={self.max_df}"
            )
        self.idf_ = inverse_document_frequency(frequency[self.columns_], n_rows)
        return rows, 0 if known else 1

    def _stop_columns(self, names: dict[int, str] | None) -> list[int]:
        """Return the columns of the stop words."""
        stopped, settings = check_stop_words(self.stop_words), self.hashing_ or self.vocabulary_settings_
        if not stopped:
            return []
        if settings is not None:
            rule = {name: getattr(settings, name) for name in ("lowercase", "tokenizer", "normalize")}
            cut: Callable[[Documents], Tokens] = partial(words_of, **rule)
            terms = stop_terms(stopped, cut, settings.ngram_range)
            if self.hashing_ is not None:
                return list(map(int, hash_columns(terms, self.hashing_.n_features)[0]))
            stopped = tuple(terms.text(i).decode() for i in range(terms.n_documents))
        elif names is None:
            raise ValueError(
                f"stop_words are {len(stopped)} words, but must be none where the columns have no names: "
                "give fit(X, terms=...) their names"
            )
        known = set(stopped)
        return [column for column, name in (names or {}).items() if name in known]

    def _weighted(self, counts: Any) -> Any:
        """Return the weighted rows: lazily for lazy counts."""
        of = partial(_weigh, weighting=self.weighting)
        n_columns, dtype = len(self.columns_), row_dtype(counts.dtype)
        return engine.map_rows(counts, of, n_columns=n_columns, dtype=dtype, sparse_output=True, name="weigh")

    def _counted(self, documents: Documents) -> CSRRows:
        """Count the words of new texts as those of ``fit`` were counted."""
        if self.hashing_ is not None:
            return hash_documents(documents, self.hashing_)
        settings = self.vocabulary_settings_
        if settings is None or self.words_ is None:
            raise ValueError(
                "X holds texts, but the model was fitted on counts of unknown words: give it counts"
            )
        index = TermIndex.of(Documents.of(self.words_))
        known = encode_documents(
            documents, index, settings.ngram_range, settings.lowercase, settings.tokenizer, settings.normalize
        )
        places = (known.data, self.columns_[known.indices], known.indptr)
        return sparse.csr_array(places, shape=(known.shape[0], self.n_features_in_))

    def _term_weights(self) -> FloatArray:
        """Return p sqrt(log(p / q)) of each word, p and q being its shares in a topic and in all text.

        Shares are those of counts, without inverse document frequencies, under which rare names would come first.
        """
        counts = self.components_ / self.idf_
        counts /= np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        mean = self.topic_shares_ @ counts / self.topic_shares_.sum()
        lift = np.divide(counts, mean, out=np.ones_like(counts), where=mean > 0)
        return np.asarray(counts * np.sqrt(np.log(np.maximum(lift, 1.0))))

    def _term_columns(self) -> tuple[NDArray[np.int64], int]:
        return self.columns_, self.n_features_in_

    def _term_names(self) -> "Terms | None":
        if self.words_ is None:
            return None
        return {
            column: word for column, word in zip(self.columns_.tolist(), self.words_, strict=True) if word
        }

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.string = True
        return tags


def _are_texts(X: Any) -> "TypeIs[TextColumn]":
    """Report whether X is texts: packed ones, an iterator, or a list or column that begins with a string."""
    if isinstance(X, Documents | Iterator):
        return True
    column = isinstance(X, list | tuple) or len(getattr(X, "shape", ())) == 1
    return column and is_texts(X) and isinstance(next(iter(X), None), str | bytes)


def _vocabulary_settings(X: object) -> VocabularySettings | None:
    """Return how the words of a store were counted, where it knows."""
    settings = getattr(X, "provenance", {}).get("vocabulary")
    if not settings:
        return None
    return VocabularySettings(**{**settings, "ngram_range": tuple(settings["ngram_range"])})


def _weigh(rows: Rows, *, weighting: Weighting) -> CSRRows:
    return weighting.apply(counts_of(rows))


def _coordinates_of(rows: Rows, *, weighting: Weighting, axes: Axes) -> FloatArray:
    """Return the coordinates of one block of counts, shape (n, k)."""
    return np.asarray(axes.coordinates(_weigh(rows, weighting=weighting)), dtype=np.float64)


def _shares_of(rows: Rows, *, weighting: Weighting, axes: Axes) -> FloatArray:
    """Return the topic shares of one block of counts, shape (n, k)."""
    return shares(axes.cosines(_coordinates_of(rows, weighting=weighting, axes=axes)))
