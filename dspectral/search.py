"""Search: the rows nearest to a text, a row or a point among the coordinates that a fitted model gives them."""

from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import get_tags

from dspectral import engine
from dspectral.inputs.parameters import check_integer
from dspectral.methods.topics.estimator import Topics
from dspectral.store.blocks import IDS, TEXTS
from dspectral.store.columns import check_columns
from dspectral.store.coordinates import Coordinates, write_rows
from dspectral.store.rows import OpenedCounts
from dspectral.text.weighting import Weighting
from dspectral.types import FloatArray, is_sparse

SLICE_ROWS = 8_192
"""Rows whose cosines with all queries are in memory at a time."""


class Neighbor(NamedTuple):
    """A row that is near to a query.

    Attributes
    ----------
    row : int
        Number of the row, from 0.
    cosine : float
        Cosine of its coordinates with those of the query, at most 1.
    id : str or None
        Id of the document, where a store was searched that was built with ``id_field``.
    text : str or None
        The document, where the store was built with ``keep_texts``.
    """

    row: int
    cosine: float
    id: str | None = None
    text: str | None = None


def write_coordinates(
    model: Any, X: Any, out: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> Coordinates:
    """Write the coordinates of rows chunk by chunk, out of core, with the ids that their store keeps.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted; ``transform`` gives the coordinates, of :class:`Topics` its ``coordinates``.
    X : store, sparse matrix, Dask array, ndarray or list of str
        Rows as the model takes them; a store is weighted as the rows of the fit were.
    out : str or path-like
        Local path or fsspec URL. One that ends in ``.zarr`` becomes a group with the arrays ``coordinates`` and
        ``ids``; one in ``.parquet`` a folder with a file for each chunk, since files are whole or not there, and the
        columns ``row``, ``id`` and ``coordinates``.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Coordinates
        Opened: ``array`` and ``ids``, for :func:`nearest`. ``open_coordinates(out)`` opens them again.

    Raises
    ------
    StoreError
        If there is something else at ``out``.

    Notes
    -----
    One pass. A call that was stopped goes on if it is made again with the same model and rows: only blocks of chunks
    that are missing are read, and the files are those of a call that was not stopped.

    Examples
    --------
    >>> from dspectral import Texts, TruncatedSVD, build_store
    >>> store = build_store(Texts(["cats purr", "dogs bark", "dogs run"]), "memory://located")
    >>> svd = TruncatedSVD(2).fit(store.tfidf())
    >>> nearest(svd, write_coordinates(svd, store, "memory://located-coordinates.zarr"), "bark", n=1)[0].row
    1
    """
    return write_rows(_points(model, X, X), out, storage_options=storage_options)


class Nearest(NamedTuple):
    """The nearest rows of each of several queries, by falling cosine. Shapes: `cosines, rows` (n_queries, n)."""

    cosines: NDArray[np.float32]
    rows: NDArray[np.int64]
    n: int

    @classmethod
    def of(cls, points: FloatArray, numbers: NDArray[np.int64], *, queries: FloatArray, n: int) -> Self:
        """Return the nearest rows of one block; rows at the origin are near to nothing.

        Shapes: `points` (n_rows, k); `numbers` (n_rows, 1); `queries` (n_queries, k), of length 1.
        """
        found = cls(np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64), n)
        for start in range(0, len(points), SLICE_ROWS):
            some = np.asarray(points[start : start + SLICE_ROWS], dtype=np.float32)
            lengths = np.linalg.norm(some, axis=1)
            kept = np.flatnonzero(lengths > 0)
            # Queries times a slice and never times a block: the product would be larger than the block itself.
            cosines = queries @ (some[kept] / lengths[kept, None]).T
            rows = np.broadcast_to(numbers[start + kept, 0], cosines.shape)
            found = found.merge(cls(cosines, rows, n))
        return found

    def merge(self, *others: Self) -> Self:
        """Return the nearest of all rows: of equally near ones the first, however the rows are cut."""
        parts = (self, *others)
        cosines, rows = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        order = np.lexsort((rows, -cosines), axis=1)[:, : self.n]
        return type(self)(
            np.take_along_axis(cosines, order, axis=1), np.take_along_axis(rows, order, axis=1), self.n
        )


def nearest(model: Any, rows: Any, query: Any, n: int = 10) -> Any:
    """Find the rows that are nearest to a text, to one of the rows, or to a point: exactly, in one pass.

    Parameters
    ----------
    model : estimator or None
        Fitted estimator, or pipeline, whose ``transform`` gives rows their coordinates; None where ``rows`` are
        coordinates already.
    rows : store, sparse matrix, Dask array, ndarray or Coordinates, shape (n_rows, n_columns)
        Rows to search, out of core: a store or sparse ones, which the model transforms block by block as they are read;
        or dense coordinates, also those that :func:`write_coordinates` has saved.
    query : str, int, ndarray, sparse or Dask array, store, or list of these
        A text, counted as those of the store were; the number of a row; a point of shape (n_coordinates,); a sparse row
        or a row of a store, of which the model gives the coordinates; or several. Sparse rows are weighted as those of
        the fit, or counts, which are whole numbers.
    n : int, default=10
        Number of rows to find for each query.

    Returns
    -------
    list of Neighbor, or list of these lists
        The nearest rows, the nearest first; one list for each query where there are several. A row that is the query is
        not among them, nor are rows without coordinates, such as those of empty texts.

    Raises
    ------
    ValueError
        If a row number is out of range, a text cannot be counted as the rows were, or a point has another length.

    Notes
    -----
    One pass over the rows, and one over the blocks of queries. Memory: a block, and 12 n bytes a query.

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
    points = _points(model, rows, rows)
    query = _as_rows(model, points, query)
    if is_sparse(query) or isinstance(query, OpenedCounts):
        queries = _unit(np.asarray(_as_computed(_points(model, rows, query))))
        return _nearest(rows, points, queries, [-1] * len(queries), n)
    several = not isinstance(query, str | Integral) and np.ndim(query) != (
        1 if isinstance(query, np.ndarray) else 0
    )
    asked = list(query) if several else [query]
    own = [int(one) if isinstance(one, Integral) else -1 for one in asked]
    queries = _unit(_queries(model, rows, points, asked))
    lists = _nearest(rows, points, queries, own, n)
    return lists if several else lists[0]


def _nearest(
    rows: Any, points: Any, queries: NDArray[np.float32], own: list[int], n: int
) -> list[list[Neighbor]]:
    """Find the rows nearest to each query but for its own row, in one pass."""
    of = partial(Nearest.of, queries=queries, n=n + 1)
    found = engine.summarize(points, engine.row_numbers(points), of=of, name="nearest")
    lists = [
        [Neighbor(row, cosine) for row, cosine in zip(*near, strict=True) if row != this][:n]
        for this, near in zip(own, zip(found.rows.tolist(), found.cosines.tolist(), strict=True), strict=True)
    ]
    return _with_documents(rows, lists)


def _as_rows(model: Any, points: Any, query: Any) -> Any:
    """Return a query of rows as CSR or a store, points as an ndarray, texts as a list, all others as they are."""
    if isinstance(query, list) and query and all(is_sparse(row) for row in query):
        query = sparse.vstack([row.reshape((1, -1)) for row in query])
    query = _as_computed(query)
    if hasattr(query, "to_numpy"):
        query = query.to_numpy()
    if isinstance(query, np.ndarray) and query.dtype.kind in "OUT":
        return query.tolist()
    if not is_sparse(query) and not isinstance(query, OpenedCounts):
        return query
    if is_sparse(query):
        query = sparse.csr_array(query.reshape((1, -1)) if query.ndim == 1 else query)
    width = getattr(model, "n_features_in_", query.shape[1])
    if model is not None and query.shape[1] == width:
        return query
    if query.shape[1] != points.shape[1] or not is_sparse(query):
        raise ValueError(
            f"query has {query.shape[1]} columns, but it must have {points.shape[1]}, as coordinates have"
            + ("" if model is None else f", or {width}, as the rows that the model takes have")
        )
    return query.toarray()


def _as_computed(X: Any) -> Any:
    return X.compute() if engine.is_lazy(X) and not isinstance(X, OpenedCounts) else X


def _with_documents(rows: Any, lists: list[list[Neighbor]]) -> list[list[Neighbor]]:
    """Add the ids and texts that a store has kept."""
    if not isinstance(rows, OpenedCounts | Coordinates):
        return lists
    numbers = sorted({near.row for found in lists for near in found})
    ids, texts = (
        dict(zip(numbers, rows.documents(numbers, part) or [], strict=False)) for part in (IDS, TEXTS)
    )
    return [
        [Neighbor(*near[:2], ids.get(near.row), texts.get(near.row)) for near in found] for found in lists
    ]


def _queries(model: Any, rows: Any, points: Any, asked: list[Any]) -> FloatArray:
    """Return the coordinates of queries of one kind. Shapes: returns (n_queries, k)."""
    if not asked:
        raise ValueError("query is empty")
    if all(isinstance(one, str) for one in asked):
        if model is None:
            raise ValueError(
                f"query is {asked[0]!r:.60}, but without a model coordinates alone can be searched"
            )
        return np.asarray(_points(model, rows, asked))
    if all(isinstance(one, Integral) for one in asked):
        wrong = [one for one in asked if not 0 <= one < points.shape[0]]
        if wrong:
            raise ValueError(f"query is row {wrong[0]}, but there are rows 0 to {points.shape[0] - 1}")
        # One block after the other, and each once: a lazy array would order the rows of a selection by itself.
        order = np.unique(np.asarray(asked))
        chosen = points[order]
        known = np.asarray(chosen.compute() if hasattr(chosen, "compute") else chosen)
        return known[np.searchsorted(order, asked)]
    known = np.asarray(asked, dtype=np.float64)
    if known.ndim != 2 or known.shape[1] != points.shape[1]:
        raise ValueError(
            f"query has shape {known.shape}, but points of {points.shape[1]} coordinates are needed"
        )
    return known


def _points(model: Any, rows: Any, X: Any) -> Any:
    """Return the coordinates of the rows, or of texts that are counted as the rows were. Shapes: returns (n, k)."""
    are_texts = isinstance(X, list)
    if isinstance(X, Coordinates):
        return X.array
    are_counts = isinstance(X, OpenedCounts) or is_sparse(getattr(X, "_meta", X))
    if not are_texts and (model is None or not are_counts):
        return X
    named = None
    are_shares = isinstance(rows, Coordinates) and rows.head["made_by"] == "topic-shares"
    if isinstance(rows, Coordinates):
        named, rows = rows.head["store"], rows.store
    transform = model.coordinates if isinstance(model, Topics) and not are_shares else model.transform
    first = model.steps[0][1] if hasattr(model, "steps") else model
    if are_texts and not get_tags(first).input_tags.string:
        if not isinstance(rows, OpenedCounts):
            give = f": open_store({named!r}) opens the one that they name, files do not" if named else ""
            raise ValueError(
                f"query is a text, but rows are no store, which knows how texts are counted{give}"
            )
        check_columns(first, rows.column_identity, "the store")
        X = rows.count(X)
    if (digest := getattr(model, "weighting_", None)) is not None and isinstance(rows, OpenedCounts):
        weighting = Weighting.tfidf(rows.document_frequency, rows.n_rows)
        if weighting.digest != digest:
            raise ValueError(
                "the model was fitted on rows of another weighting than rows.tfidf(): give it in a Pipeline behind its "
                "TfidfWeighting"
            )
        if isinstance(X, OpenedCounts):
            X = X.weighted(weighting)
        elif np.all(
            (values := X.data[: X.nnz]) == np.round(values)
        ):  # counts, or rows of one word, whose direction no weight changes
            X = weighting.apply(X)
    return transform(X)


def _unit(points: FloatArray) -> NDArray[np.float32]:
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 0, lengths, 1), dtype=np.float32)
