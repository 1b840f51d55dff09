"""Search: the rows nearest to a text, a row or a point by cosine in the coordinates of a fitted model."""

from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from sklearn.utils import get_tags

from dspectral import engine
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.topics.estimator import Topics
from dspectral.parameters import check_integer, check_real
from dspectral.store.blocks import IDS, TEXTS
from dspectral.store.columns import check_columns, weigh_rows
from dspectral.store.coordinates import Coordinates, write_rows
from dspectral.store.rows import CountMatrix
from dspectral.text.weighting import Weighting, inverse_document_frequency
from dspectral.types import CSRRows, FloatArray, Floats, Int64s, is_sparse

PANEL_ROWS = 8_192
"""Rows of a block whose cosines with all queries are in memory at a time."""


DEFAULT_WORDS = 0.7
"""Default weight of the shared words in a score."""


class Neighbor(NamedTuple):
    """A row found by :func:`nearest`.

    Attributes
    ----------
    row : int
        Row number, from 0.
    cosine : float
        Cosine of the coordinates of the row and the query.
    id : str or None
        Document id, if the store was built with ``id_field``.
    text : str or None
        Text of the document, if the store was built with ``keep_texts``.
    score : float
        Score that orders the rows: the cosine, or its weighted mean with the cosine of the shared words.
    """

    row: int
    cosine: float
    id: str | None = None
    text: str | None = None
    score: float = 0.0


def write_coordinates(
    model: Any,
    X: Any,
    out: str | PathLike[str],
    *,
    storage_options: dict[str, Any] | None = None,
    dtype: DTypeLike | None = None,
) -> Coordinates:
    """Write the coordinates of rows chunk by chunk, out of core, with the ids from their store.

    Parameters
    ----------
    model : estimator, Pipeline or None
        Fitted model. Its ``transform`` computes the coordinates; for :class:`Topics`, its ``coordinates``. None writes
        dense ``X`` itself.
    X : store, sparse matrix, Dask array, ndarray or list of str
        Input of the model. A store is weighted as in the fit.
    out : str or path-like
        Local path or fsspec URL. A name that ends in ``.zarr`` becomes a Zarr group with the arrays ``coordinates``
        and ``ids``. A name that ends in ``.parquet`` becomes a folder with one file per chunk and the columns ``row``,
        ``id`` and ``coordinates``.
    storage_options : dict, optional
        Options of the fsspec file system.
    dtype : data-type, optional
        Type of the written coordinates, such as ``"float16"``; by default that of ``transform``.

    Returns
    -------
    Coordinates
        The written coordinates, as from ``open_coordinates(out)``, with ``array`` and ``ids``.

    Raises
    ------
    StoreError
        If ``out`` holds other data.

    Notes
    -----
    One pass. An interrupted call resumes if it is repeated with the same model and rows: it reads only the blocks of
    missing chunks, and writes the same files as an uninterrupted call.

    Examples
    --------
    >>> from dspectral import Texts, TruncatedSVD, build_store
    >>> store = build_store(Texts(["cats purr", "dogs bark", "dogs run"]), "memory://located")
    >>> svd = TruncatedSVD(2).fit(store.tfidf())
    >>> nearest(svd, write_coordinates(svd, store, "memory://located-coordinates.zarr"), "bark", n=1)[0].row
    1
    """
    points = _compute_points(model, X, X)
    if points is X and model is not None:  # dense rows, which are points in a search
        points = getattr(model, "coordinates", model.transform)(X)
    return write_rows(points, out, storage_options=storage_options, dtype=dtype)


class SharedWords(NamedTuple):
    """Sublinear tf-idf of rows (n_rows, d) and of queries (d, n_queries), and the weight of their cosine."""

    rows: Any
    queries: CSRRows
    weight: float


class Nearest(NamedTuple):
    """Summary: the nearest rows of each query by descending score. Shapes: all arrays (n_queries, n).

    The scores are the cosines of the coordinates, or their weighted means with the cosines of the words.
    """

    cosines: Floats
    rows: Int64s
    scores: Floats
    n: int

    @classmethod
    def from_block(
        cls,
        points: FloatArray,
        numbers: Int64s,
        words: "CSRRows | None" = None,
        *,
        queries: FloatArray,
        n: int,
        shared: "SharedWords | None" = None,
    ) -> Self:
        """Return the nearest rows of one block; rows of zeros are left out.

        Shapes: `points` (n_rows, k); `numbers` (n_rows, 1); `words` (n_rows, d), of length 1; `queries` (n_queries, k),
        of length 1.
        """
        none = np.zeros((len(queries), 0), np.float32)
        summary = cls(none, none.astype(np.int64), none, n)
        for start in range(0, len(points), PANEL_ROWS):
            panel = np.asarray(points[start : start + PANEL_ROWS], dtype=np.float32)
            lengths = np.linalg.norm(panel, axis=1)
            nonzero = np.flatnonzero(lengths > 0)
            # With many queries the product with a whole block would be larger than the block.
            scores = cosines = queries @ (panel[nonzero] / lengths[nonzero, None]).T
            if shared is not None and words is not None:
                word_cosines = (words[start : start + PANEL_ROWS] @ shared.queries).toarray()[nonzero].T
                scores = np.asarray((1 - shared.weight) * cosines + shared.weight * word_cosines, dtype=np.float32)
            rows = np.broadcast_to(numbers[start + nonzero, 0], cosines.shape)
            summary = summary.merge(cls(cosines, rows, scores, n))
        return summary

    def merge(self, *others: Self) -> Self:
        """Return the nearest rows of all summaries; ties go to the lower row number."""
        cosines, rows, scores = (np.concatenate([other[i] for other in (self, *others)], axis=1) for i in range(3))
        order = np.lexsort((rows, -scores), axis=1)[:, : self.n]
        cosines, rows, scores = (np.take_along_axis(array, order, axis=1) for array in (cosines, rows, scores))
        return type(self)(cosines, rows, scores, self.n)


def nearest(model: Any, rows: Any, query: Any, n: int = 10, *, words: float | None = None) -> Any:
    """Find the rows nearest to a text, a row or a point by exact search in one pass.

    The score of a row is ``(1 - words) * cosine + words * shared``: the cosine of the coordinates, and the cosine of
    sublinear tf-idf, which is positive for rows that share words with the query.

    Parameters
    ----------
    model : estimator or None
        Fitted estimator or pipeline whose ``transform`` computes coordinates; None if ``rows`` are coordinates.
    rows : store, sparse matrix, Dask array, ndarray or Coordinates, shape (n_rows, n_columns)
        Rows to search, out of core. The model transforms a store or sparse rows block by block. Dense rows are taken as
        coordinates, as are those from :func:`write_coordinates`.
    query : str, int, ndarray, sparse or Dask array, store, or list of these
        One query or several: a text, counted with the settings of the store; a row number; a point of shape
        (n_coordinates,); or a sparse row or row of a store, which the model transforms. Sparse rows are either counts,
        as whole numbers, or weighted as in the fit.
    n : int, default=10
        Number of rows to return per query.
    words : float or None, default=None
        Weight of the shared words, from 0 to 1; 0 compares coordinates alone. It needs the counts of a store, from
        which the rows or saved coordinates are, and a text, row number or counts as query. None takes 0.7 with both,
        and 0 otherwise.

    Returns
    -------
    list of Neighbor, or list of these lists
        The nearest rows, nearest first; one list per query for several queries. The query row itself and rows of zeros,
        such as empty texts, are left out. Empty for a query without a known word.

    Raises
    ------
    ValueError
        If a row number is out of range, a text is given but the rows have no settings to count it with, a point has
        another length, or ``words`` is above 0 without counts.

    Notes
    -----
    One pass over the rows, and one over the queries. Memory: a block, and 16 n bytes per query.

    Examples
    --------
    >>> from dspectral import Texts, TruncatedSVD, build_store
    >>> texts = ["cats purr", "cats sleep and purr", "dogs bark", "dogs bark and run"]
    >>> store = build_store(Texts(texts), "memory://searched")
    >>> svd = TruncatedSVD(2).fit(store.tfidf())
    >>> [texts[near.row] for near in nearest(svd, store, "do dogs bark?", n=2)]
    ['dogs bark', 'dogs bark and run']
    """
    n = check_integer("n", n, at_least=1)
    points = _compute_points(model, rows, rows)
    query = _normalize_query(model, points, query)
    are_rows = is_sparse(query) or isinstance(query, CountMatrix)
    is_single = not are_rows and (isinstance(query, str | Integral) or np.ndim(query) == isinstance(query, np.ndarray))
    items = [query] if is_single else query if are_rows else list(query)
    if are_rows:
        coordinates = np.asarray(_compute(_compute_points(model, rows, query)))
        excluded = [-1] * len(coordinates)
    else:
        coordinates = _get_query_points(model, rows, points, items)
        excluded = [int(item) if isinstance(item, Integral) else -1 for item in items]
    queries = normalize_rows(coordinates).astype(np.float32)
    lists = search_points(rows, points, queries, excluded, n, select_shared_words(_get_store(rows), items, words))
    return lists[0] if is_single else lists


def search_points(
    rows: Any,
    points: Any,
    queries: Floats,
    excluded: list[int],
    n: int,
    shared: SharedWords | None,
) -> list[list[Neighbor]]:
    """Find the rows nearest to each query in one pass, without the excluded row of each.

    A query of zeros, such as an empty text, only has rows that share words with it.
    """
    summarize_block = partial(Nearest.from_block, queries=queries, n=n + 1)
    streams = [points]
    if shared is not None:
        if isinstance(rows, Coordinates):  # the chunks of coordinates differ from the blocks of their store
            streams = [points.rechunk((shared.rows.chunks[0], -1))]
        streams.append(shared.rows)
        summarize_block = partial(summarize_block, shared=shared._replace(rows=None))
    streams.insert(1, engine.get_row_numbers(streams[0]))
    summary = engine.summarize(*streams, summarize_block=summarize_block, name="nearest")
    has_points = np.asarray(queries.any(axis=1)).tolist()
    neighbor_lists = zip(excluded, has_points, *(array.tolist() for array in summary[:3]), strict=True)
    lists = []
    for excluded_row, is_nonzero, *neighbors in neighbor_lists:
        candidates = [Neighbor(row, cosine, score=score) for cosine, row, score in zip(*neighbors, strict=True)]
        lists.append([near for near in candidates if near.row != excluded_row and (is_nonzero or near.score > 0)][:n])
    return _add_documents(rows, lists)


def _get_store(rows: Any) -> CountMatrix | None:
    """Return the store of the rows, or of saved coordinates whose store is open."""
    store = rows.store if isinstance(rows, Coordinates) else rows
    return store if isinstance(store, CountMatrix) and len(store) == len(rows) else None


def select_shared_words(store: CountMatrix | None, query: Any, words: float | None) -> SharedWords | None:
    """Return rows and queries as sublinear tf-idf, or None if the score has no shared words."""
    weight = DEFAULT_WORDS if words is None else check_real("words", words, at_least=0.0, at_most=1.0)
    counts = None if store is None or not weight else _count_query(store, query)
    if store is None or counts is None:
        if words:
            raise ValueError(f"words={words} needs a store as rows, and a text, row number or counts as query: pass 0")
        return None
    idf = inverse_document_frequency(store.document_frequency, store.n_rows, unseen="drop")
    weighting = Weighting("sublinear", idf, norm="l2")
    queries = sparse.csr_array(weighting.apply(sparse.csr_array(counts)).T)
    return SharedWords(store.weighted(weighting), queries, weight)


def _count_query(store: CountMatrix, query: Any) -> "CSRRows | None":
    """Return the counts of queries, or None for points and weighted rows."""
    if isinstance(query, CountMatrix):
        query = query.counts.compute()
    if is_sparse(query):
        is_counts = query.shape[1] == store.shape[1] and np.array_equal(query.data, np.round(query.data))
        return sparse.csr_array(query) if is_counts else None
    if all(isinstance(item, str) for item in query):
        return store.count(list(query))
    if all(isinstance(item, Integral) for item in query):
        numbers, positions = np.unique(query, return_inverse=True)
        return sparse.csr_array(store[numbers].counts.compute())[positions]
    return None


def _normalize_query(model: Any, points: Any, query: Any) -> Any:
    """Return sparse rows as CSR or a store, points as an ndarray, texts as a list, and other queries unchanged."""
    if isinstance(query, list) and query and all(is_sparse(row) for row in query):
        query = sparse.vstack([row.reshape((1, -1)) for row in query])
    query = _compute(query)
    if hasattr(query, "to_numpy"):
        query = query.to_numpy()
    if isinstance(query, np.ndarray) and query.dtype.kind in "OUT":
        return query.tolist()
    if not is_sparse(query) and not isinstance(query, CountMatrix):
        return query
    if is_sparse(query):
        query = sparse.csr_array(query.reshape((1, -1)) if query.ndim == 1 else query)
    width = getattr(model, "n_features_in_", query.shape[1])
    if model is not None and query.shape[1] == width:
        return query
    if query.shape[1] != points.shape[1] or not is_sparse(query):
        raise ValueError(
            f"query has {query.shape[1]} columns, but must have {points.shape[1]} as coordinates"
            + ("." if model is None else f", or {width} as input of the model")
        )
    return query.toarray()


def _compute(X: Any) -> Any:
    return engine.as_dask_rows(X).compute() if engine.is_lazy(X) and not isinstance(X, CountMatrix) else X


def _add_documents(rows: Any, lists: list[list[Neighbor]]) -> list[list[Neighbor]]:
    """Add the ids and texts from the store."""
    if not isinstance(rows, CountMatrix | Coordinates):
        return lists
    numbers = sorted({neighbor.row for neighbors in lists for neighbor in neighbors})
    ids, texts = (dict(zip(numbers, rows.documents(numbers, part) or [], strict=False)) for part in (IDS, TEXTS))
    return [
        [neighbor._replace(id=ids.get(neighbor.row), text=texts.get(neighbor.row)) for neighbor in neighbors]
        for neighbors in lists
    ]


def _get_query_points(model: Any, rows: Any, points: Any, queries: list[Any]) -> FloatArray:
    """Return the coordinates of queries of one kind. Shapes: returns (n_queries, k)."""
    if queries and all(isinstance(query, str) for query in queries):
        if model is None:
            raise ValueError(f"query is the text {queries[0]!r:.60}, but model is None: pass the fitted model")
        return np.asarray(_compute_points(model, rows, queries))
    if queries and all(isinstance(query, Integral) for query in queries):
        outside = [query for query in queries if not 0 <= query < points.shape[0]]
        if outside:
            raise ValueError(f"query is row {outside[0]}, but must be from 0 to {points.shape[0] - 1}")
        # Sorted and unique, so that each block is read once.
        numbers = np.unique(queries)
        return np.asarray(_compute(points[numbers]))[np.searchsorted(numbers, queries)]
    coordinates = np.asarray(queries, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != points.shape[1]:
        raise ValueError(f"query has shape {coordinates.shape}, but each point must have {points.shape[1]} coordinates")
    return coordinates


def _compute_points(model: Any, rows: Any, X: Any) -> Any:
    """Return the coordinates of rows, or of texts counted with the settings of `rows`. Shapes: returns (n, k)."""
    are_texts = isinstance(X, list)
    if isinstance(X, Coordinates):
        return X.array
    are_counts = isinstance(X, CountMatrix) or is_sparse(getattr(X, "_meta", X))
    if not are_texts and (model is None or not are_counts):
        return X
    store_url = None
    are_shares = isinstance(rows, Coordinates) and rows.head["made_by"] == "topic-shares"
    if isinstance(rows, Coordinates):
        store_url, rows = rows.head["store"], rows.store
    transform = model.coordinates if isinstance(model, Topics) and not are_shares else model.transform
    first = model.steps[0][1] if hasattr(model, "steps") else model
    if are_texts and not get_tags(first).input_tags.string:
        if not isinstance(rows, CountMatrix):
            opened = f"call open_store({store_url!r}) first" if store_url else "pass the store itself as rows"
            raise ValueError(f"query is a text, but rows is no store that can count it: {opened}")
        check_columns(first, rows.column_identity, "the store")
        X = rows.count(X)
    if (digest := getattr(model, "weighting_", None)) is not None and isinstance(rows, CountMatrix):
        weighting = Weighting.tfidf(rows.document_frequency, rows.n_rows)
        if weighting.digest != digest:
            raise ValueError(
                "the model was fitted to another weighting than rows.tfidf(): pass a Pipeline of its TfidfWeighting "
                "and the model"
            )
        if isinstance(X, CountMatrix):
            X = X.weighted(weighting)
        elif np.all((values := X.data[: X.nnz]) == np.round(values)):  # counts; weighted rows are not whole numbers
            X = weigh_rows(X, weighting, n_columns=X.shape[1], dtype=X.dtype)
    return transform(X)
