"""Counts in a corpus's store: the bits of one sum, whatever the blocks and parts, within the memory that is said."""

import shutil
from itertools import pairwise
from pathlib import Path

import dask
import numpy as np
import pytest

from dspectral.cooccurrence.contexts import ContextCounts, ContextSettings
from dspectral.cooccurrence.scaling import bound_entries
from dspectral.engine import Blocks
from dspectral.store import context_counts
from dspectral.store.context_counts import spill_contexts
from dspectral.store.location import Location, StoreError
from dspectral.types import Sentences

N_TYPES = 30
TEXT = [np.minimum(np.random.default_rng(i).zipf(1.3, 12) - 1, N_TYPES - 1).astype(np.int32) for i in range(45)]


def sentences_of(item):
    """Return some sentences by number: a function of this module, which tasks can import."""
    return Sentences.from_ids(TEXT[item[0] : item[1]])


def spilled(folder, n_blocks, most, **how):
    cuts = np.linspace(0, len(TEXT), n_blocks + 1).astype(int).tolist()
    blocks = Blocks(sentences_of, list(pairwise(cuts)))
    settings = ContextSettings(N_TYPES, 4, **how)
    counts = np.bincount(np.concatenate(TEXT), minlength=N_TYPES)
    entries = bound_entries(counts, n_positions=8, n_contexts=how.get("n_contexts") or N_TYPES)
    with dask.config.set(scheduler="sync"):
        return spill_contexts(blocks, Location(str(folder)), entries, settings, max_entries=most)


N_BLOCKS, MOST = [1, 2, 7, 45], [1, 50, 200, 10**6]
WAYS = [{}, {"distance_weighting": True}, {"n_contexts": 9}]
EVERY_PAIR = [(n_blocks, most, WAYS[(i + j) % 3]) for i, n_blocks in enumerate(N_BLOCKS) for j, most in enumerate(MOST)]
"""Each number of blocks with each size of a part, and each way of counting with every one of both."""


@pytest.mark.slow
@pytest.mark.parametrize(("n_blocks", "most", "how"), EVERY_PAIR)
def test_any_blocks_and_parts_give_the_bits_of_one_sum(n_blocks, most, how, tmp_path):
    store = spilled(tmp_path, n_blocks, most, **how)
    whole = ContextCounts.from_block(Sentences.from_ids(TEXT), n_types=N_TYPES, window=4, **how).counts.astype(
        np.float32
    )
    actual = store.counts.compute()
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(actual, part), getattr(whole, part))
    assert actual.indices.dtype == actual.indptr.dtype == np.int32
    assert not Path(store.location.url, "scratch").exists()


@pytest.mark.parametrize("most", [30, 100, 250])
def test_a_part_is_summed_within_the_memory_that_is_said(most, tmp_path, monkeypatch):
    groups, add = [], context_counts.sum_packed_rows

    def adding(before, packed_rows, starts, row):
        total = add(before, packed_rows, starts, row)
        groups.append(len(starts))
        assert len(starts) == 1 or packed_rows.nbytes <= 8 * most
        if packed_rows.nbytes <= 8 * most:
            assert sum(part.nbytes for sums in (before, total) for part in sums[:2]) + packed_rows.nbytes <= 36 * most
        return total

    monkeypatch.setattr(context_counts, "sum_packed_rows", adding)
    spilled(tmp_path, len(TEXT), most)
    assert 1 < max(groups) < len(TEXT)


def test_a_run_goes_on_after_scratch_was_partly_removed(tmp_path, monkeypatch):
    def fail(where, name, rows):
        if name.endswith("000002"):
            raise KeyboardInterrupt
        return write(where, name, rows)

    write, count, counted = context_counts.write_block, context_counts.count_contexts, []
    with monkeypatch.context() as patched:
        patched.setattr(context_counts, "write_block", fail)
        with pytest.raises(KeyboardInterrupt):
            spilled(tmp_path, 7, 300)
    (scratch,) = tmp_path.glob("contexts/*/scratch/0000")
    spills = sorted(path for path in scratch.iterdir() if path.is_dir())
    assert [path.name for path in spills] == [f"{i:06d}" for i in range(7)]
    shutil.rmtree(spills[3])
    (spills[5] / "zarr.json").unlink()  # the completion marker
    monkeypatch.setattr(context_counts, "count_contexts", lambda *args: counted.append(1) or count(*args))
    content = (spills[0] / "counts").read_bytes()
    (spills[0] / "counts").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StoreError, match=r"000000.*checksum"):
        spilled(tmp_path, 7, 300)
    assert len(counted) == 2
    (spills[0] / "counts").write_bytes(content)
    store, whole = spilled(tmp_path, 7, 300), spilled(tmp_path / "whole", 7, 300)
    assert [block.digest for block in store.blocks] == [block.digest for block in whole.blocks]
