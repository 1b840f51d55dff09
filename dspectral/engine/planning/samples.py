"""A few blocks of whatever an estimator is given, and how much of the whole they are."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from dspectral.engine.backed_rows import backed_rows, is_backed
from dspectral.engine.row_blocks import BLOCK_BYTES, Blocks
from dspectral.types import is_sparse

FEW_ITEMS = 4096
"""Sentences or texts in memory of which a block of a sample is made."""
WEIGHTS = ("nnz", "n_tokens", "n_rows", "n_sentences")
"""Names of attributes that say how much work a block of a store is, the best first."""


class Cut(NamedTuple):
    """How data is cut into blocks.

    `rows`: rows of each block; `weights`: how much work each block is, in units that are the same for all of
    them; `in_memory`: whether the data lies in this process, so that its threads do the work; `read`: bytes
    of all blocks once they are read, where they are known.
    """

    rows: tuple[int, ...]
    weights: tuple[float, ...]
    in_memory: bool
    read: int | None


def cut_of(X: Any) -> Cut | None:
    """Return how data is cut."""
    if is_backed(X):
        X = backed_rows(X)
    if _has_blocks(X):
        return _of_store(X)
    if isinstance(X, da.Array):
        rows = tuple(int(n) for n in X.chunks[0])
        is_dense = isinstance(X._meta, np.ndarray)  # noqa: SLF001  the public `meta` is the same, but not typed
        return Cut(rows, tuple(map(float, rows)), False, int(X.nbytes) if is_dense else None)
    blocks = getattr(X, "sentences", X)
    if isinstance(blocks, Blocks):
        n = len(blocks.items)
        return Cut((1,) * n, (1.0,) * n, blocks.in_memory, None)
    if is_sparse(X) or isinstance(X, np.ndarray):
        return _of_matrix(X)
    return _of_items(X)


def _of_items(X: Any) -> Cut | None:
    """Return how a sequence in memory may be cut; None for what is none."""
    if isinstance(X, Sequence) and not isinstance(X, str | bytes) and len(X):
        n_blocks = -(-len(X) // FEW_ITEMS)
        rows = tuple(min(FEW_ITEMS, len(X) - i * FEW_ITEMS) for i in range(n_blocks))
        return Cut(rows, tuple(map(float, rows)), True, None)
    return None


def take(X: Any, numbers: Sequence[int], cut: Cut) -> Any:
    """Return some blocks of data as data of the same kind."""
    if is_backed(X):
        X = backed_rows(X)
    if _has_blocks(X):
        return replace(X, blocks=tuple(X.blocks[i] for i in numbers))
    if isinstance(X, Blocks):
        return X._replace(items=[X.items[i] for i in numbers])
    if isinstance(getattr(X, "sentences", None), Blocks) and hasattr(X, "_replace"):
        return X._replace(sentences=take(X.sentences, numbers, cut))
    if isinstance(X, da.Array):
        same = X.numblocks[0] == len(cut.rows)
        return da.concatenate([X.blocks[i] for i in numbers]) if same else _rows_of(X, numbers, cut)
    if is_sparse(X) or isinstance(X, Sequence | np.ndarray) or hasattr(X, "iloc"):
        return X if isinstance(X, str | bytes) or _length(X) != sum(cut.rows) else _rows_of(X, numbers, cut)
    return X


def chosen(cut: Cut, size: int) -> list[int]:
    """Choose blocks for a sample.

    >>> chosen(Cut((1,) * 9, (1.0,) * 8 + (2.0,), False, None), 3)
    [0, 4, 8]
    """
    n = len(cut.rows)
    if size >= n:
        return list(range(n))
    largest = int(np.argmax(cut.weights))
    spread = [round(i * (n - 1) / max(1, size - 1)) for i in range(size)]
    # The last block is what was left over, and no example of the others.
    usual = [i for i in spread if i not in (largest, n - 1)][: size - 1]
    more = [i for i in range(n) if i != largest and i not in usual]
    return sorted([largest, *usual, *more[: size - 1 - len(usual)]])


def _of_store(X: Any) -> Cut:
    blocks = X.blocks
    name = next((name for name in WEIGHTS if hasattr(blocks[0], name)), None)
    weights = tuple(float(getattr(block, name)) if name else 1.0 for block in blocks)
    rows = tuple(int(getattr(b, "n_rows", getattr(b, "n_sentences", 1))) for b in blocks)
    return Cut(rows, weights, False, getattr(X, "n_bytes", None))


def _of_matrix(X: Any) -> Cut:
    n_bytes = X.nnz * (X.data.itemsize + 4) if is_sparse(X) else X.nbytes
    n_rows = X.shape[0]
    n_blocks = max(1, -(-n_bytes // BLOCK_BYTES))
    edges = np.linspace(0, n_rows, n_blocks + 1).astype(int)
    rows = tuple(int(n) for n in np.diff(edges))
    return Cut(rows, tuple(map(float, rows)), True, int(n_bytes))


def _rows_of(X: Any, numbers: Sequence[int], cut: Cut) -> Any:
    """Return the rows of some blocks of what is cut into single rows."""
    edges = np.concatenate([[0], np.cumsum(cut.rows)])
    wanted = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in numbers])
    if hasattr(X, "iloc"):
        return X.iloc[wanted]
    if isinstance(X, Sequence) and not isinstance(X, np.ndarray):
        return [X[i] for i in wanted]
    return X.tocsr()[wanted] if is_sparse(X) else X[wanted]


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _has_blocks(X: Any) -> bool:
    """Whether X is a store or a corpus, of which a part can be made by leaving out blocks."""
    if isinstance(X, type) or not is_dataclass(X):
        return False
    return any(field.name == "blocks" for field in fields(X)) and len(getattr(X, "blocks", ())) > 0


def first_data(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Cut | None:
    """Return how the first argument that is data is cut."""
    return next(filter(None, map(cut_of, (*arguments, *keywords.values()))), None)
