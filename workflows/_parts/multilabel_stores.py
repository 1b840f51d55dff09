"""Stores of labeled documents for the workflow on many labels: of files, and of some of a store's documents."""

import argparse
import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral import VocabularySettings, Weighting, build_store, write_counts
from dspectral.io import build_labeled_store
from dspectral.store import CountStore

from .labeled_documents import Side, indicator, labels_that_count, most_frequent, not_learned, written


def stores(arguments: argparse.Namespace, scratch: str) -> tuple[CountStore, CountStore]:
    """Read both sides; without a test file, take a share of the documents away for one."""
    if arguments.format == "records":
        return of_records(arguments, scratch)
    settings: Any = {"format": arguments.format, "zero_based": not arguments.one_based}
    train = build_labeled_store(arguments.train, f"{scratch}/train.zarr", **settings)
    if arguments.test is None:
        return parted(train, arguments.test_share, arguments.seed, f"{scratch}/split")
    # Columns are those of the training file; a label that it lacks cannot be found, and is an error.
    width = {"n_columns": train.n_columns}
    return train, build_labeled_store(arguments.test, f"{scratch}/test.zarr", **settings, **width)


def of_records(arguments: argparse.Namespace, scratch: str) -> tuple[CountStore, CountStore]:
    """Count the words of both sides, of the training side's most frequent terms and its labels.

    Labels of the test side that are not learned are columns behind the others; `labels.json` in the scratch names all,
    and says how many test documents have none.
    """
    names = labels_that_count(arguments)
    settings: Any = {"unit": "field", "field": "text"}
    sides = ["train"] if arguments.test is None else ["train", "test"]
    # Test documents without a label cannot be scored.
    texts = [written(arguments, side, names, f"{scratch}/{side}.jsonl", unlabeled=side == "train") for side in sides]
    path = f"{scratch}/text.zarr"
    store = build_store(texts[0].path, path, vocabulary=VocabularySettings(), **settings)
    kept = Weighting(columns=most_frequent(store, arguments.terms))
    train = build_labeled_part(store, kept, texts[0], names, f"{scratch}/train.zarr")
    if len(texts) == 1:
        scored = np.flatnonzero([bool(own) for own in texts[0].labels])
        return parted(train, arguments.test_share, arguments.seed, f"{scratch}/split", scored)
    n_train = store.n_rows
    store = build_store(texts[1].path, path, vocabulary=VocabularySettings(), append=True, **settings)
    names = [*names, *not_learned(texts[1].labels, names)]
    known = {"names": names, "n_unlabeled": texts[1].n_unlabeled}
    Path(f"{scratch}/labels.json").write_text(json.dumps(known), encoding="utf-8")
    return train, build_labeled_part(store, kept, texts[1], names, f"{scratch}/test.zarr", start=n_train)


def build_labeled_part(
    store: CountStore, kept: Weighting, side: Side, names: list[str], path: str, start: int = 0
) -> CountStore:
    """Write the rows from one on with their labels."""
    rows = store.weighted(kept)
    weighting = {"weighting": kept.digest}  # which a slice of rows loses
    return write_counts(rows[start:], path, labels=indicator(side.labels, names), provenance=weighting)


def parted(
    store: CountStore, share: float, seed: int, path: str, scored: NDArray[np.int64] | None = None
) -> tuple[CountStore, CountStore]:
    """Write a store's documents as two, the second a share of them (or of those that can be scored) drawn at random."""
    scored = np.arange(store.n_rows) if scored is None else scored
    n_taken = round(share * len(scored))
    if not 0 < n_taken < store.n_rows:
        raise ValueError(f"a share of {share:g} of {len(scored)} documents leaves one of two parts empty")
    taken = np.zeros(store.n_rows, dtype=bool)
    taken[np.random.default_rng(seed).permutation(scored)[:n_taken]] = True
    sides = ((~taken, f"{path}-rest.zarr"), (taken, f"{path}-taken.zarr"))
    rest, part = (
        write_counts(rows_of(store.counts, mask), to, labels=rows_of(store.labels, mask)) for mask, to in sides
    )
    return rest, part


def rows_of(blocks: da.Array, mask: NDArray[np.bool_]) -> da.Array:
    """Return some rows of each block."""
    pieces = np.split(mask, np.cumsum(blocks.chunks[0])[:-1])
    sparse_rows: Any = {"meta": sparse.csr_array((0, 0), dtype=blocks.dtype), "dtype": blocks.dtype}
    parts = [
        blocks.blocks[i].map_blocks(_masked, mask=piece, chunks=((int(piece.sum()),), blocks.chunks[1]), **sparse_rows)
        for i, piece in enumerate(pieces)
        if piece.any()
    ]
    return da.concatenate(parts)


def _masked(block: Any, mask: NDArray[np.bool_]) -> Any:
    return block[np.flatnonzero(mask)]
