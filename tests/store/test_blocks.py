"""One block of rows: what is written is read, and whatever is missing or damaged is named."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dspectral.store.blocks import find_block, write_block
from dspectral.store.counts import open_store
from dspectral.store.location import LocalFiles, Location, StoreError
from dspectral.store.matrix import write_counts
from tests.strategies import zipf_counts

ROWS = zipf_counts(60, 40, 9)


@pytest.fixture
def store(tmp_path):
    return write_counts(ROWS, str(tmp_path / "counts.zarr"), block_rows=20)


def test_the_mark_is_the_last_write_and_one_alone(tmp_path, monkeypatch):
    written, original = [], LocalFiles.set

    async def spy(self, key, value):
        written.append(key)
        await original(self, key, value)

    monkeypatch.setattr(LocalFiles, "set", spy)
    write_block(Location(str(tmp_path)), "a", ROWS)
    assert len(written) == 11
    assert written[-1] == "a/zarr.json"
    assert written.count("a/zarr.json") == 1
    (tmp_path / "a" / "zarr.json").unlink()
    assert find_block(Location(str(tmp_path)), "a") is None


def test_a_missing_block_is_named_when_it_is_read_or_checked(store):
    shutil.rmtree(Path(store.location.url) / store.blocks[1].name)
    opened = open_store(store.location.url)
    assert np.array_equal(opened.counts[:20].compute().toarray(), ROWS[:20].toarray())
    with pytest.raises(StoreError, match=rf"{re.escape(store.location.url)}, block .*-000001: data"):
        opened.counts.compute()
    with pytest.raises(StoreError, match=r"-000001.*mark"):
        opened.check()
