"""Pieces of scratch in one file: each comes back by itself, and what is not as it was written is named."""

from pathlib import Path

import numpy as np
import pytest

from dspectral.store.context_counts import find_pieces, read_piece, write_pieces
from dspectral.store.location import Location, StoreError

PIECES = [np.arange(8 * n, dtype=np.uint8) for n in (3, 0, 30, 1)]
PATH = "scratch/0000/000007.counts"


@pytest.fixture(params=["disk", "memory"])
def where(request, tmp_path):
    return Location(str(tmp_path / "store") if request.param == "disk" else f"memory://{tmp_path}")


def read(where, index, i):
    out = np.empty(8 * index[i, 1], np.uint8)
    read_piece(where, PATH, int(index[i, 0]), int(index[i + 1, 0]), int(index[i, 2]), out)
    return out


def test_each_piece_is_read_by_itself(where):
    assert find_pieces(where, PATH, len(PIECES)) is None
    for _ in range(2):  # the second time over what is there
        index = write_pieces(where, PATH, iter(PIECES))
    np.testing.assert_array_equal(find_pieces(where, PATH, len(PIECES)), index)
    assert find_pieces(where, PATH, len(PIECES) + 1) is find_pieces(where, PATH, 500) is None
    for i in (2, 0, 3, 1):
        np.testing.assert_array_equal(read(where, index, i), PIECES[i])
    assert where.names("scratch/0000") == ["000007.counts"]
    where.remove("scratch")
    assert where.names("scratch") == []
    with pytest.raises(StoreError, match="is missing"):
        read(where, index, 0)


def test_a_changed_byte_is_found(tmp_path):
    where = Location(str(tmp_path))
    index = write_pieces(where, PATH, PIECES)
    file = Path(tmp_path, PATH)
    content = bytearray(file.read_bytes())
    content[index[2, 0] + 1] ^= 1
    file.write_bytes(content)
    np.testing.assert_array_equal(read(where, index, 0), PIECES[0])
    with pytest.raises(StoreError, match=r"000007\.counts is damaged"):
        read(where, index, 2)
    content[16] ^= 1
    file.write_bytes(content)
    assert find_pieces(where, PATH, len(PIECES)) is None
    file.write_bytes(content[: index[-1, 0] - 1])
    with pytest.raises(StoreError, match="is damaged"):
        read(where, index, 3)
