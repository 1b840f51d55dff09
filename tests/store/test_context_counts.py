"""Counts in a corpus's store: the bits of one sum, whatever the blocks and parts, within the memory that is said."""

from itertools import pairwise
from pathlib import Path

import dask
import numpy as np
import pytest

from dspectral.cooccurrence.contexts import ContextCounts, ContextSettings
from dspectral.cooccurrence.scaling import bound_entries
from dspectral.engine import Blocks
from dspectral.store import context_counts
from dspectral.store.context_counts import (
    read_spill_chunk,
    read_spill_index,
    spill_contexts,
    write_spill_file,
)
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
    held, groups, read, add = [0], [], context_counts._read_block_group, context_counts.sum_packed_rows

    def read_options(draft, first, places):
        groups.append(len(places))
        pieces, starts = read(draft, first, places)
        held[0] = pieces.nbytes
        assert len(places) == 1 or pieces.nbytes <= 8 * most
        return pieces, starts

    def adding(before, *arguments):
        total = add(before, *arguments)
        sums = sum(part.nbytes for one in (before, total) for part in one[:2])
        assert sums + held[0] <= 36 * most
        return total

    monkeypatch.setattr(context_counts, "_read_block_group", read_options)
    monkeypatch.setattr(context_counts, "sum_packed_rows", adding)
    spilled(tmp_path, len(TEXT), most)
    assert 1 < max(groups) < len(TEXT)


def test_a_run_goes_on_after_scratch_was_partly_removed(tmp_path, monkeypatch):
    def fail(where, name, rows):
        if name.endswith("000002"):
            raise KeyboardInterrupt
        return write(where, name, rows)

    def counting(where, path, pieces):
        counted.append(Path(path).name)
        return write_spill_file(where, path, pieces)

    write, write_spill_file, counted = context_counts.write_block, context_counts.write_spill_file, []
    with monkeypatch.context() as patched:
        patched.setattr(context_counts, "write_block", fail)
        with pytest.raises(KeyboardInterrupt):
            spilled(tmp_path, 7, 300)
    (scratch,) = tmp_path.glob("contexts/*/scratch/0000")
    files = sorted(scratch.iterdir())
    assert [file.name for file in files] == [f"{i:06d}.counts" for i in range(7)]
    files[3].unlink()
    files[5].write_bytes(files[5].read_bytes()[:20])  # shorter than its index
    monkeypatch.setattr(context_counts, "write_spill_file", counting)
    store = spilled(tmp_path, 7, 300)
    assert sorted(counted) == [files[3].name, files[5].name]
    whole = spilled(tmp_path / "whole", 7, 300)
    assert [block.digest for block in store.blocks] == [block.digest for block in whole.blocks]


PIECES = [np.arange(8 * n, dtype=np.uint8) for n in (3, 0, 30, 1)]
PATH = "scratch/0000/000007.counts"


def read(where, index, i):
    out = np.empty(8 * index[i, 1], np.uint8)
    read_spill_chunk(where, PATH, int(index[i, 0]), int(index[i + 1, 0]), int(index[i, 2]), out)
    return out


def test_a_changed_byte_is_found(tmp_path):
    where = Location(str(tmp_path))
    index = write_spill_file(where, PATH, PIECES)
    file = Path(tmp_path, PATH)
    content = bytearray(file.read_bytes())
    content[index[2, 0] + 1] ^= 1
    file.write_bytes(content)
    np.testing.assert_array_equal(read(where, index, 0), PIECES[0])
    with pytest.raises(StoreError, match=r"000007\.counts"):
        read(where, index, 2)
    content[16] ^= 1
    file.write_bytes(content)
    assert read_spill_index(where, PATH, len(PIECES)) is None
    file.write_bytes(content[: index[-1, 0] - 1])
    with pytest.raises(StoreError, match=r"000007\.counts"):
        read(where, index, 3)
