"""Arrays are read as Zarr wrote them, and every damage is an error that names the array."""

import google_crc32c
import numpy as np
import pytest
import zarr

from dspectral.store import arrays
from dspectral.store.arrays import read_array, write_array
from dspectral.store.location import Location, StoreError


@pytest.fixture(params=["{}", "file://{}", "memory://{}"])
def location(request, tmp_path):
    return Location.from_url(request.param.format(tmp_path))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8", "c16", ">i4", ">f8"])
@pytest.mark.parametrize("shape", [(0,), (1,), (20,), (0, 3), (5, 0), (23, 3), (7, 2, 2)], ids=str)
def test_arrays_of_any_shape_are_read_as_zarr_reads_them(dtype, shape, location, monkeypatch):
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 7)
    values = np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)
    write_array(location, "group/array", np.ones(40))  # which is replaced with all of its chunks
    write_array(location, "group/array", values)
    of_zarr = zarr.open_array(location.open(), path="group/array", mode="r")
    for read in (read_array(location, "group/array"), of_zarr[...]):
        np.testing.assert_array_equal(read, values)
        assert read.shape == shape
        assert read.dtype == values.dtype.newbyteorder("=")


def with_checksum(packed):
    return packed + google_crc32c.value(packed).to_bytes(4, "little")


DAMAGES = {
    "empty": lambda chunk: b"",
    "cut": lambda chunk: chunk[:3],
    "bit": lambda chunk: chunk[:-5] + bytes([chunk[-5] ^ 1]) + chunk[-4:],
    "no header": lambda chunk: with_checksum(chunk[:3]),
    "too long": lambda chunk: with_checksum(chunk[:4] + (9000).to_bytes(4, "little") + chunk[8:-4]),
    "too short": lambda chunk: with_checksum(chunk[:4] + (8).to_bytes(4, "little") + chunk[8:-4]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_chunks_are_named(damage, tmp_path):
    location = Location.from_url(tmp_path)
    write_array(location, "group/array", np.arange(100))
    file = tmp_path / "group/array/c/0"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.raises(StoreError, match=r"block group: array is damaged"):
        read_array(location, "group/array")
