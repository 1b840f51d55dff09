"""Topics of documents, with their words and most typical documents, out of core."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from dspectral import engine
from dspectral.decomposition.estimators import PCA
from dspectral.decomposition.spectrum import SVDOptions, n_block_reads, spectrum
from dspectral.inputs.rows import RowTransformer, get_row_dtype, project, validate_rows
from dspectral.inputs.texts import TextsOrCounts, as_documents, get_row_labels, is_text_column
from dspectral.inputs.top_terms import Terms, TopTermsMixin
from dspectral.io.vectors import read_vectors
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.topics.columns import WordColumnsMixin
from dspectral.methods.topics.following import FollowedTopics, follow_topics
from dspectral.methods.topics.merging import merge_models
from dspectral.methods.topics.rotation import (
    CoordinateSample,
    TopicAxes,
    TopicMixture,
    TopicSums,
    compute_shares,
    find_varimax_rotation,
)
from dspectral.parameters import RandomState, check_integer, check_real, resolve_seed
from dspectral.registry import register_class
from dspectral.store.blocks import IDS, TEXTS
from dspectral.store.columns import to_csr_counts
from dspectral.store.coordinates import write_rows
from dspectral.store.rows import CountMatrix
from dspectral.text.stop_words import StopWords
from dspectral.text.weighting import TermFrequency, Weighting
from dspectral.types import CheckpointPath, CSRRows, Documents, Doubles, FloatArray, IntArray, Rows

N_PASSES = 5
"""Number of passes of the decomposition."""
MAX_ROTATED_ROWS, MAX_MIXTURE_ENTRIES = 1 << 15, 1 << 20
"""Maximum number of rows in the sample for the rotation, and about of entries in that for the mixture."""


class TopDocument(NamedTuple):
    """A typical document of a topic.

    Attributes
    ----------
    row : int
        Row number of the document, from 0.
    cosine : float
        Cosine of the document with the topic; 1 if it has no other topic.
    id : str or None
        Document id of a store with ids, or label of a pandas index that is not 0, 1, 2, ...
    text : str or None
        Text of the document, if ``fit`` was given texts or a store with texts.
    """

    row: int
    cosine: float
    id: str | None = None
    text: str | None = None


@register_class(
    {
        "columns_": "n_words",
        "words_": "n_words",
        "idf_": "n_words",
        "axes_": "r *",
        "singular_values_": "r",
        "rotation_": "r k",
        "components_": "k n_words",
        "topic_shares_": "k",
        "group_words_": "k n_words",
        "group_sizes_": "k",
        "document_rows_": "k n",
        "document_cosines_": "k n",
    }
)
class Topics(WordColumnsMixin, TopTermsMixin, RowTransformer, BaseEstimator):
    """Find the topics of documents, with their words and most typical documents.

    Rows are tf-idf weights of unit length, over words that are neither rare nor too frequent. Their leading singular
    vectors, or the principal components of vectors of another model, are rotated by varimax, so that each document is
    near few of them. The words of a topic are those of the documents with no other topic.

    Parameters
    ----------
    n_topics : int, default=50
        Number of topics, k.
    tf : {"sublinear", "count", "binary", "sqrt", "log"}, default="sublinear"
        Function of a count, as for :class:`TfidfWeighting`.
    min_df : int or float, default=5
        Minimum number (int) or share (float) of documents with a word.
    max_df : int or float, default=0.1
        Maximum number or share of documents with a word. Function words of any language occur in more than a tenth.
    stop_words : str, collection of str or None, default=()
        Further words to ignore, with the n-grams that contain them: ``"english"``, another language of the package
        stop-words, or words, which are tokenized like the texts. In a hashed store their columns are ignored, with all
        words that collide with them, and n-grams are kept unless they have names. Other counts need column names.
    n_top_documents : int, default=10
        Number of typical documents per topic.
    random_state : int, RandomState or None, default=0
        Seed of the singular vectors.

    Attributes
    ----------
    components_ : ndarray of float64, shape (n_topics, n_words)
        Share of each word in a topic; rows sum to 1.
    topic_shares_ : ndarray of float64, shape (n_topics,)
        Mean share of each topic over the documents, descending after ``fit``.
    group_words_ : ndarray of float64, shape (n_topics, n_words)
        Sums of the weighted words of the documents that :meth:`predict` assigns to a topic, by probability.
    group_sizes_ : ndarray of float64, shape (n_topics,)
        Numbers of these documents.
    columns_ : ndarray of int64, shape (n_words,)
        Columns of the counts within ``min_df`` and ``max_df``, without stop words.
    words_ : list of str, shape (n_words,), or None
        Words of these columns, empty for hashed columns without a name; None if columns have no names.
    singular_values_ : ndarray of float64, shape (n_topics,)
        Singular values of the weighted rows or centered vectors, before the rotation.
    pca_ : PCA or None
        Principal components of the ``vectors`` of ``fit``; None for topics of words.
    n_documents_ : int
        Number of documents.
    n_passes_ : int
        Number of passes over the rows.
    n_features_in_ : int
        Number of columns of the counts.

    Notes
    -----
    Two passes more than :class:`TruncatedSVD`: one for the sample of at most 32,768 rows of the rotation, and one for
    words and documents, with a summary of 16 k (d + 10) bytes. Counts that are not a store need another pass.

    :meth:`predict` groups documents by a mixture in which each has one topic. Twenty steps of EM on the sample, at most
    about a million entries, start from the shares of :meth:`transform`.

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

    @engine.tracked_fit
    def fit(
        self,
        X: TextsOrCounts,
        y: object = None,
        *,
        terms: "Terms | None" = None,
        vectors: Any = None,
        checkpoints: CheckpointPath = None,
    ) -> Self:
        """Fit the topics.

        Parameters
        ----------
        X : list or column of str, store, sparse matrix, Dask array or ndarray
            Texts in memory, with the words of :func:`dspectral.build_corpus`, or pairs of letters for scripts without
            blanks; or counts of documents, shape (n_documents, n_columns). Missing texts are read as empty ones.
        y : ignored
            Not used, present for API consistency.
        terms : store, KeptTerms, Vocabulary, sequence of str, dict or vectorizer, default=None
            Names of the columns, as for :func:`dspectral.top_terms`; by default those of a store.
        vectors : array, path or list of these, optional
            Vectors of the documents from any model, as for :func:`dspectral.read_vectors`. They are scaled to unit
            length, and their principal components replace the singular vectors of the words. :meth:`transform` and
            :meth:`coordinates` then take vectors; :meth:`predict` takes counts.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, fewer words than topics are within ``min_df`` and ``max_df``, or the number
            of vectors is not that of the documents.
        """
        check_integer("n_topics", self.n_topics, at_least=1)
        n_nearest = check_integer("n_top_documents", self.n_top_documents, at_least=1)
        documents = as_documents(X, missing="empty") if is_text_column(X) else None
        counts, n_counted = self._learn_columns(X if documents is None else documents, terms)
        weigh, dtype = partial(_weigh_block, weighting=self.weighting), get_row_dtype(counts.dtype)
        rows = engine.map_rows(
            counts, weigh, n_columns=len(self.columns_), dtype=dtype, sparse_output=True, name="weigh"
        )
        self.random_state_ = resolve_seed(self.random_state)
        axes, streams, n_passes = self._find_axes(rows, vectors)
        n_rows = rows.shape[0]
        step = -(-n_rows // MAX_ROTATED_ROWS)
        n_entries = int(((1 + n_rows) * np.exp(1 - self.idf_) - 1).sum())
        mixture_step = max(1, -(-n_entries // (step * MAX_MIXTURE_ENTRIES)))
        take_sample = partial(CoordinateSample.from_block, axes=axes, step=step, row_step=step * mixture_step)
        sample = engine.summarize(*streams, summarize_block=take_sample, name="sample")
        axes = axes._replace(rotation=find_varimax_rotation(sample.coordinates / axes.singular_values))
        mixture = TopicMixture.fit(sample.rows, compute_shares(axes.cosines(sample.coordinates[::mixture_step])))
        n_nearest = min(n_nearest, n_rows)
        summarize_block = partial(TopicSums.from_block, axes=axes, mixture=mixture, n_nearest=n_nearest)
        sums = engine.summarize(*streams, summarize_block=summarize_block, name="topics")
        self._set_topics(axes, sums, n_rows, np.argsort(-sums.share, kind="stable"))
        self._read_top_documents(X, documents)
        self.n_passes_ = n_counted + n_passes + 2
        return self

    def _find_axes(self, rows: Any, vectors: Any) -> tuple[TopicAxes, list[Any], int]:
        """Return the axes without a rotation, the streams of the next passes, and the number of passes."""
        if vectors is None:
            options = SVDOptions(
                self.n_topics, n_passes=N_PASSES, seed=self.random_state_, dtype=get_row_dtype(rows.dtype)
            )
            engine.expect_passes(n_block_reads(rows, options) + 2, replaces=True)
            result = spectrum(rows, options)
            self.pca_, axes = None, self._keep_positive(result.axes, np.sqrt(result.values))
            return axes, [rows, engine.get_row_numbers(rows)], result.n_passes
        rows, vectors = engine.as_dask_rows(rows), read_vectors(vectors)
        n_vectors, width = vectors.shape
        if n_vectors != len(rows):
            raise ValueError(f"vectors has {n_vectors} rows, but must have {len(rows)}, one for each document of X")
        unit = engine.map_rows(vectors, normalize_rows, n_columns=width, dtype=vectors.dtype, name="normalize")
        self.pca_ = pca = PCA(self.n_topics, random_state=self.random_state_).fit(unit)
        engine.expect_passes(2, replaces=True)
        axes = self._keep_positive(pca.components_, pca.singular_values_)
        project_block = partial(_project_block, weighting=self.weighting, axes=axes, mean=pca.mean_)
        points = engine.map_rows(vectors, project_block, n_columns=len(axes.components), name="coordinates")
        # Coordinates are few, so they are merged to the blocks of the counts.
        return axes, [rows, engine.get_row_numbers(rows), points.rechunk((rows.chunks[0], -1))], pca.n_passes_

    def _keep_positive(self, components: FloatArray, singular_values: FloatArray) -> TopicAxes:
        """Set the singular values above rounding, and return their axes."""
        is_positive = singular_values > np.finfo(np.float32).eps * singular_values.max(initial=0.0)
        self.singular_values_ = singular_values[is_positive]
        return TopicAxes(components[is_positive], self.singular_values_, np.eye(int(is_positive.sum())))

    def partial_fit(
        self,
        X: TextsOrCounts,
        y: object = None,
        *,
        terms: "Terms | None" = None,
        checkpoints: CheckpointPath = None,
    ) -> Self:
        """Add the topics of more documents; only these are read, and known topics keep their numbers.

        Parameters
        ----------
        X, y, terms, checkpoints : as for ``fit``
            More texts, or counts over the same columns.

        Returns
        -------
        self
            The fitted estimator: a fit of X alone, merged as by :meth:`merge`.

        Raises
        ------
        ValueError
            As for ``fit``, or if X has other columns.
        """
        if not hasattr(self, "components_"):
            return self.fit(X, terms=terms, checkpoints=checkpoints)
        if not is_text_column(X):
            validate_rows(self, X, reset=False)
        self.__dict__.update(vars(self.merge(clone(self).fit(X, terms=terms, checkpoints=checkpoints))))
        return self

    def merge(self, other: "Topics", *, min_cosine: float = 0.5) -> "Topics":
        """Return the topics of the documents of two models, without reading these again.

        Parameters
        ----------
        other : Topics
            Model of further documents, over the same columns, or over named words counted alike.
        min_cosine : float, default=0.5
            Minimum cosine of the words of two topics that become one.

        Returns
        -------
        Topics
            A new model. Topics of ``self`` keep their numbers, and those of ``other`` without a counterpart follow.
            Rows of ``other`` are numbered after those of ``self``.

        Raises
        ------
        TypeError
            If ``other`` is not a Topics model.
        ValueError
            If the models count words differently, have other columns without names, or are of vectors.

        Notes
        -----
        Shares of merged topics are sums over both models. The words of a topic are the mean of both, weighted by
        documents; this is exact for matched topics. Axes of topics are the nearest orthonormal ones to such means,
        so that shares of documents in :meth:`transform` are close to those of a fit of all documents, not equal.
        O((k + m)^2 d) operations.

        Examples
        --------
        >>> texts = ["cats purr", "cats sleep and purr", "dogs bark", "dogs bark and run"] * 5
        >>> news = ["dogs bark", "dogs run and bark", "cows moo", "cows moo and eat"] * 5
        >>> topics, newer = (Topics(2, max_df=0.6, stop_words=["and"]).fit(part) for part in (texts, news))
        >>> [set(words) == {"cows", "moo"} for words in topics.merge(newer).top_words(2)]
        [False, False, True]
        """
        if not isinstance(other, Topics):
            raise TypeError(f"other={other!r:.60} must be a Topics")
        check_is_fitted(self)
        check_is_fitted(other)
        if self.pca_ is not None or other.pca_ is not None:
            raise ValueError("topics of vectors cannot be merged: fit all documents and their vectors together")
        check_real("min_cosine", min_cosine, at_least=0.0, at_most=1.0)
        merged: Topics = merge_models(self, other, min_cosine)
        return merged

    def _set_topics(self, axes: TopicAxes, sums: TopicSums, n_rows: int, order: IntArray) -> None:
        """Set the fitted attributes, with topics in an order."""
        self.axes_, self.rotation_ = axes.components, axes.rotation[:, order]
        # Signs of hashed counts are the same for all occurrences of a word, and have no meaning here.
        words = np.abs(sums.words[order])
        totals = words.sum(axis=1, keepdims=True)
        self.components_ = np.divide(words, totals, out=np.zeros_like(words), where=totals > 0)
        self.topic_shares_ = sums.share[order] / n_rows
        self.group_words_, self.group_sizes_ = sums.group_words[order], sums.group_sizes[order]
        self.document_rows_, self.document_cosines_ = sums.nearest[order], sums.cosines[order]
        self.n_documents_ = n_rows

    def _read_top_documents(self, X: Any, documents: Documents | None) -> None:
        """Set the ids and texts of the most typical documents of each topic, None if X has none."""
        rows = [[row for row in topic if row >= 0] for topic in self.document_rows_.tolist()]
        self.document_ids_ = self.document_texts_ = None
        if documents is not None:
            self.document_texts_ = [[documents.text(row).decode() for row in topic] for topic in rows]
            if (labels := get_row_labels(X)) is not None:
                self.document_ids_ = [[str(labels[row]) for row in topic] for topic in rows]
        elif isinstance(X, CountMatrix):
            for name, kind in (("document_ids_", IDS), ("document_texts_", TEXTS)):
                if (columns := [X.documents(topic, kind) for topic in rows]) and None not in columns:
                    setattr(self, name, columns)

    def transform(self, X: TextsOrCounts, *, out: str | None = None) -> Any:
        """Return the share of each topic in documents.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts, if ``fit`` was given texts or a store; or counts over the same columns as in ``fit``. If ``fit`` was
            given vectors, vectors of the same model.
        out : str, optional
            Path or URL of a new file of shares, as for :func:`dspectral.write_coordinates`.

        Returns
        -------
        ndarray or Dask array of float64, shape (n_documents, n_topics)
            Shares that sum to 1, or zeros for documents without known words; lazy for lazy counts. Coordinates if
            ``out`` is given.
        """
        return self._map_documents(X, _compute_block_shares, "topic-shares", out)

    def predict(self, X: TextsOrCounts) -> Any:
        """Return the most probable topic of each document given its words, to group documents.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts or counts, as for :meth:`transform`.

        Returns
        -------
        ndarray or Dask array of int64, shape (n_documents,)
            Numbers of topics, -1 for documents without known words; lazy for lazy counts.
        """
        counts = self._as_counts(X)
        predict = partial(
            _predict_block, weighting=self.weighting, mixture=TopicMixture(self.group_words_, self.group_sizes_)
        )
        return engine.map_rows(counts, predict, n_columns=1, dtype=np.int64, name="predict")[:, 0]

    def coordinates(self, X: TextsOrCounts, *, out: str | None = None) -> Any:
        """Return the coordinates of documents along the singular vectors, as :func:`dspectral.nearest` uses them.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts or counts, as for :meth:`transform`.
        out : str, optional
            Path or URL of a new file of coordinates, as for :func:`dspectral.write_coordinates`.

        Returns
        -------
        ndarray or Dask array of float64, shape (n_documents, n_topics)
            Coordinates of the weighted rows; lazy for lazy counts. Coordinates if ``out`` is given.
        """
        return self._map_documents(X, _project_block, "coordinates", out)

    def _map_documents(self, X: Any, function: Callable[..., FloatArray], name: str, out: str | None) -> Any:
        check_is_fitted(self)
        rows = self._as_counts(X) if self.pca_ is None else validate_rows(self.pca_, X, reset=False)
        axes = TopicAxes(self.axes_, self.singular_values_, self.rotation_)
        mean = None if self.pca_ is None else self.pca_.mean_
        apply_to_block = partial(function, weighting=self.weighting, axes=axes, mean=mean)
        Z = engine.map_rows(rows, apply_to_block, n_columns=len(self.components_), name=name)
        return Z if out is None else write_rows(Z, out)

    def _as_counts(self, X: TextsOrCounts) -> Any:
        check_is_fitted(self)
        return (
            self._count_words(as_documents(X, missing="empty"))
            if is_text_column(X)
            else validate_rows(self, X, reset=False)
        )

    def follow(self, X: TextsOrCounts, by: Any, *, n_words: int = 100) -> FollowedTopics:
        """Return the topics over periods, with the changes that are more than noise.

        All periods are read with the same axes, so topics keep their identity, and no error of the axes is a change.

        Parameters
        ----------
        X : list of str, store, sparse matrix, Dask array or ndarray
            Texts or counts, as for :meth:`transform`.
        by : array-like, shape (n_documents,)
            Date or period of each document. Dates become at most 60 days, months or years; other values are sorted, as
            numbers if they are. Documents without a value are left out.
        n_words : int, default=100
            Number of words of a topic that are followed: those in most of its documents.

        Returns
        -------
        FollowedTopics
            Shares of the topics with intervals, and changes.

        Raises
        ------
        TypeError
            If ``by`` is one string.
        ValueError
            If ``by`` has not one value for each document, or fewer than 2 or more than 60 periods.

        Notes
        -----
        One pass. Each period is cut into 20 runs of documents. Counts are divided by how many times more they vary
        between runs than those of independent documents, and a change must be significant in an exact test. Without a
        change, any is reported with a probability of at most 1 %, over all topics, words and periods; else about 1 % of
        the changes are false (Benjamini and Hochberg 1995). Memory: 160 bytes per period and topic, and 12 for each
        followed word of a document.

        Examples
        --------
        >>> texts = ["cats purr", "cats sleep and purr"] * 40 + ["dogs bark", "dogs bark and run"] * 60
        >>> followed = Topics(2, max_df=0.6, stop_words=["and"]).fit(texts).follow(texts, [2025] * 80 + [2026] * 120)
        >>> [(change.topic, change.period, change.kind) for change in followed.changes if change.word is None]
        [(0, '2026', 'birth'), (1, '2026', 'death')]
        """
        check_integer("n_words", n_words, at_least=1)
        return follow_topics(self, self._as_counts(X), by, n_words)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns of :meth:`transform`.

        Parameters
        ----------
        input_features : object, default=None
            Ignored: texts are one column.

        Returns
        -------
        ndarray of str objects
            ``topics0``, ``topics1``, ...
        """
        return np.array([f"topics{i}" for i in range(self._n_features_out)], dtype=object)

    def top_words(self, n: int = 10) -> list[list[str]]:
        """Return the words that are more frequent in each topic than in all text.

        Parameters
        ----------
        n : int, default=10
            Number of words of a topic.

        Returns
        -------
        list of list of str
            Words by descending p sqrt(log(p / q)), where p and q are the shares of a word in the topic and in all text.

        Raises
        ------
        ValueError
            If the columns have no names; pass them to ``top_terms(terms=...)``.
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
            Row, cosine, id and text if there are any, by descending cosine.
        """
        check_is_fitted(self)
        results = []
        for topic, (rows, cosines) in enumerate(zip(self.document_rows_, self.document_cosines_, strict=True)):
            ids, texts = (
                [None] * len(rows) if values is None else values[topic]
                for values in (self.document_ids_, self.document_texts_)
            )
            documents = zip(rows.tolist(), cosines.tolist(), ids, texts, strict=False)
            results.append([TopDocument(*document) for document in documents if document[0] >= 0][:n])
        return results

    def to_frame(self, n_words: int = 10) -> Any:
        """Return the topics as a data frame, one row per topic.

        Parameters
        ----------
        n_words : int, default=10
            Number of words of a topic.

        Returns
        -------
        pandas.DataFrame
            Columns ``share``, ``words``, and ``row``, ``id`` and ``text`` of the most typical document.
        """
        words = [" ".join(topic) for topic in self.top_words(n_words)]
        first = [topic[0] if topic else TopDocument(-1, 0.0) for topic in self.top_documents(1)]
        columns = {name: [getattr(document, name) for document in first] for name in ("row", "id", "text")}
        return import_module("pandas").DataFrame({"share": self.topic_shares_, "words": words, **columns})

    def _term_weights(self) -> FloatArray:
        """Return p sqrt(log(p / q)) of each word, where p and q are its shares in a topic and in all text.

        Shares are without inverse document frequencies, which would put rare names first.
        """
        counts = self.components_ / self.idf_
        counts /= np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        mean = self.topic_shares_ @ counts / self.topic_shares_.sum()
        lift = np.divide(counts, mean, out=np.ones_like(counts), where=mean > 0)
        return np.asarray(counts * np.sqrt(np.log(np.maximum(lift, 1.0))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


def _weigh_block(rows: Rows, *, weighting: Weighting) -> CSRRows:
    return weighting.apply(to_csr_counts(rows))


def _project_block(rows: Any, *, weighting: Weighting, axes: TopicAxes, mean: Doubles | None) -> FloatArray:
    """Return the coordinates of one block of counts, or of vectors with their mean, shape (n, k)."""
    if mean is None:
        return np.asarray(axes.coordinates(_weigh_block(rows, weighting=weighting)), dtype=np.float64)
    points = project(normalize_rows(rows), axes=np.ascontiguousarray(axes.components.T), mean=mean)
    return np.where(rows.any(axis=1)[:, None], points, np.float64(0))  # an empty text may have a vector of zeros


def _compute_block_shares(rows: Any, *, weighting: Weighting, axes: TopicAxes, mean: Doubles | None) -> FloatArray:
    """Return the topic shares of one block of counts or vectors, shape (n, k)."""
    return compute_shares(axes.cosines(_project_block(rows, weighting=weighting, axes=axes, mean=mean)))


def _predict_block(rows: Rows, *, weighting: Weighting, mixture: TopicMixture) -> Any:
    """Return the topics of one block of counts, shape (n, 1)."""
    return mixture.predict(_weigh_block(rows, weighting=weighting))
