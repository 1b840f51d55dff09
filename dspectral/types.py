"""Types of blocks: rows of a matrix, sentences of token ids with or without labels, and raw documents."""

from collections.abc import Sequence
from numbers import Integral, Number
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.registry import register_class

if TYPE_CHECKING:
    import dask.array as da
    from typing_extensions import TypeIs

__all__ = ["CSRRows", "Documents", "FloatArray", "LabeledSentences", "Rows", "Sentences", "is_sparse"]

ARRAYS = "__array__", "__array_interface__", "__array_struct__"
"""Attributes of NumPy's array interfaces."""
RARE = "<?>"
"""Name of type 0, which represents rare and out-of-vocabulary words."""
JSON: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"
"""A JSON value."""
FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
AnyArray: TypeAlias = NDArray[Any]
Bools: TypeAlias = NDArray[np.bool_]
Doubles: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.float32]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Int: TypeAlias = int | np.integer[Any]
"""An integer of Python or NumPy."""
CheckpointPath: TypeAlias = "str | PathLike[str] | None"
"""Folder or URL for the checkpoints of a fit; None for the current one."""
CSRRows: TypeAlias = "sparse.csr_array[Any, tuple[int, int]]"
"""A sparse block of rows, shape ``(n_rows, n_columns)``."""
Rows: TypeAlias = "sparse.csr_array[Any, tuple[int, int]] | NDArray[np.floating[Any]]"
"""A block of rows, sparse or dense, shape ``(n_rows, n_columns)``."""


def format_value(value: object) -> str:
    """Return the first 60 characters of a value for a message; huge integers as a power of 2."""
    size = abs(int(value)) if isinstance(value, Integral) else 0
    return f"about 2**{size.bit_length()}" if size >= 1 << 63 else f"{value!r:.60}"


def is_missing(value: object) -> bool:
    """Report whether a value is missing: None, NaN, NaT, NA or a masked entry.

    >>> [is_missing(value) for value in (None, np.nan, "", 0)]
    [True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, Number) and value != value  # noqa: PLR0124  true for NaN alone


class HoldsCounts(Protocol):
    """A store: rows on disk behind the Dask array ``counts``."""

    @property
    def counts(self) -> "da.Array":
        """Lazy Dask array of the rows, shape ``(n_rows, n_columns)``."""
        ...


class HoldsRows(HoldsCounts, Protocol):
    """A store with the shape and type of its rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        ...


RowsLike: TypeAlias = (
    "NDArray[Any] | sparse.sparray | sparse.spmatrix | da.Array | HoldsCounts | Sequence[Sequence[float]]"
)
"""Rows as estimators take them: an array, a SciPy sparse matrix, a Dask array of either, or a store."""
CheckedRows: TypeAlias = "sparse.csr_array[Any, tuple[int, int]] | NDArray[np.floating[Any]] | da.Array"
"""Rows after validation: dense or CSR in memory, or a Dask array of such blocks."""


def is_sparse(X: object) -> "TypeIs[CSRRows]":
    """Report whether ``X`` is a SciPy sparse array or matrix; blocks of rows are CSR whenever they are sparse."""
    return bool(sparse.issparse(X))


def is_disk_group(X: object) -> bool:
    """Report whether ``X`` is a group of h5py or Zarr."""
    return hasattr(type(X), "create_group") and hasattr(type(X), "attrs")


def is_backed(X: object) -> bool:
    """Report whether ``X`` is a sparse matrix on disk: of AnnData, or a group of h5py or Zarr."""
    # AnnData is optional and these classes are private, so this checks attributes. A Delayed has every attribute.
    held_by_anndata = isinstance(getattr(X, "format", None), str) and hasattr(X, "group") and hasattr(X, "to_memory")
    return held_by_anndata or is_disk_group(X)


def is_disk_array(X: Any) -> bool:
    """Report whether ``X`` is a dense matrix of h5py or Zarr on disk."""
    has_chunks = all(hasattr(type(X), name) for name in ("chunks", "shape", "attrs"))
    return has_chunks and not hasattr(type(X), "to_dataset") and len(X.shape) == 2  # xarray has `to_dataset`


def unwrap_xarray(X: Any) -> Any:
    """Return the array of an xarray.DataArray that is not chunked; return other objects unchanged."""
    is_labeled = hasattr(type(X), "dims") and hasattr(type(X), "to_dataset") and X.chunks is None
    return np.asarray(X) if is_labeled else X


def is_anndata(X: object) -> bool:
    """Report whether X is an AnnData."""
    return all(hasattr(type(X), part) for part in ("obsm", "varm", "layers"))


def get_anndata_matrix(adata: Any, layer: str | None = None, obsm: str | None = None) -> Any:
    """Return a matrix of an AnnData, by default X; layer "raw" is raw.X unless a layer has this name."""
    kind, name, matrices = ("layer", layer, adata.layers) if obsm is None else ("obsm", obsm, adata.obsm)
    if name is None and adata.X is not None:
        return adata.X
    if layer == "raw" and layer not in matrices and adata.raw is not None:
        return adata.raw.X
    if name is None or name not in matrices:
        problem = (
            "the AnnData has no X" if name is None else f"{kind} is {name!r}, but the AnnData has none of this name"
        )
        raise ValueError(f"{problem}: pass {kind}= one of {', '.join(map(repr, matrices)) or 'those that you add'}")
    return matrices[name].to_numpy() if hasattr(matrices[name], "to_numpy") else matrices[name]


def check_container(X: Any, name: str = "X") -> None:
    """Raise TypeError for containers that cannot be read as rows, and name what to pass."""
    kind, cls = type(X).__name__, type(X)
    graph = getattr(cls, "__dask_graph__", None)
    is_path = isinstance(X, str | bytes | PathLike)
    is_sequence = isinstance(X, Sequence) or is_sparse(X) or any(hasattr(X, attribute) for attribute in ARRAYS)
    if (
        is_path
        or is_anndata(X)
        or any(hasattr(cls, method) for method in ("to_scipy_sparse", "to_dask_array"))
        or (graph is not None and graph(X) is not None)  # None for xarray objects that are not chunked
        or all(hasattr(X, part) for part in ("words", "sentences", "counts"))  # a corpus
        # NumPy treats such objects as sequences, and never stops if no index is out of range.
        or (hasattr(cls, "__getitem__") and not is_sequence)
        or (hasattr(X, "chunks") and hasattr(X, "shape"))
    ):
        raise TypeError(
            f"{name} is a {kind}{f', {X!r:.200}' if is_path else ''}, but must be an array, a SciPy sparse matrix, a "
            "data frame, a Dask array or a store: pass one made from it, such as dspectral.open_store(path), adata.X, "
            "dask.array.from_array(array) or frame.to_dask_array(lengths=True)"
        )


def trim_csr(A: Any) -> Any:
    """Return a CSR matrix without unused memory after its last row, without a copy. Shapes: `A` (n, d).

    >>> A = sparse.csr_array(([1.0, 9.0], [0, 0], [0, 2]), shape=(1, 1))
    >>> A.indptr[-1] = 1
    >>> trim_csr(A).data
    array([1.])
    """
    n_used = int(A.indptr[-1])
    if n_used >= len(A.data):
        return A
    return type(A)((A.data[:n_used], A.indices[:n_used], A.indptr), shape=A.shape)


def check_ids(ids: NDArray[np.int32], n: int, name: str = "word type") -> None:
    """Raise a ValueError unless all ids or labels are from 0 to ``n - 1``; compiled loops do not check bounds."""
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < n:
        bad = int(np.flatnonzero((ids < 0) | (ids >= n))[0])
        raise ValueError(f"token {bad} has {name} {ids[bad]}, but {name}s must be from 0 to {n - 1}")


class Sentences(NamedTuple):
    """The token ids (n_tokens,) of a block: sentence ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @classmethod
    def from_ids(cls, sentences: "Sequence[Sequence[int]]") -> "Sentences":
        """Concatenate sentences of token ids."""
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
        ids = np.fromiter((i for sentence in sentences for i in sentence), np.int32, int(offsets[-1]))
        return cls(ids, offsets)

    def sentence(self, i: int) -> NDArray[np.int32]:
        """Return the ids of one sentence."""
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1


class LabeledSentences(NamedTuple):
    """Sentences and a label for each token: sentence ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]


@register_class()
class Documents(NamedTuple):
    """The UTF-8 text of a block of documents: document ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def from_strings(cls, texts: "list[str] | list[bytes]") -> "Documents":
        """Concatenate texts, strings or UTF-8 bytes, into one buffer."""
        encoded = [text.encode() if isinstance(text, str) else text for text in texts]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    def text(self, i: int) -> bytes:
        """Return the UTF-8 text of document ``i``."""
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1
