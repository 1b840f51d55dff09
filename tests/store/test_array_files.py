"""Arrays are written byte for byte as Zarr writes them, and what is not as it was written is left to Zarr to name."""

import os

import google_crc32c
import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

from dspectral import SketchedPCA, load, save
from dspectral.store import array_files, arrays
from dspectral.store.arrays import read_array, write_array
from dspectral.store.location import Location, StoreError


def as_zarr_writes(values, chunk):
    """Return the files of an array, and of the group above it, that Zarr makes."""
    store = MemoryStore()
    array = zarr.create_array(
        store,
        name="group/array",
        shape=values.shape,
        dtype=values.dtype,
        chunks=(max(1, min(len(values), chunk)),),
        compressors=array_files.get_array_codecs(values.dtype),
        fill_value=array_files.get_fill_value(values.dtype),
    )
    array[:] = values
    return {key: content.to_bytes() for key, content in store._store_dict.items()}


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("dtype", ["i1", "u1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"])
@pytest.mark.parametrize("length", [0, 1, 7, 20, 300_000])
@pytest.mark.parametrize("chunk", [7, 16 << 20])
def test_the_files_are_those_of_zarr(dtype, length, chunk, monkeypatch, tmp_path):
    chunk = 16 << 20 if length > 20 else chunk
    monkeypatch.setattr(array_files, "CHUNK_ENTRIES", chunk)
    values = np.random.default_rng(length).integers(0, 100, length).astype(dtype)
    where = Location.from_url(str(tmp_path))
    write_array(where.open(read_only=False), "group/array", values)
    assert files_below(tmp_path) == as_zarr_writes(values, chunk)
    read = read_array(where, "group/array")
    assert read.tolist() == values.tolist()
    assert read.dtype == values.dtype.newbyteorder("<")


@pytest.mark.parametrize("codecs", ["none", "gzip"])
def test_what_other_writers_wrote_is_read_by_zarr(codecs, tmp_path):
    compressors = {"none": None, "gzip": zarr.codecs.GzipCodec()}[codecs]
    zarr.create_array(str(tmp_path), name="group/array", data=np.arange(9), chunks=(4,), compressors=compressors)
    where = Location.from_url(str(tmp_path))
    assert read_array(where, "group/array").tolist() == [*range(9)]


def test_an_array_that_is_there_is_replaced_with_all_of_its_chunks(monkeypatch, tmp_path):
    monkeypatch.setattr(array_files, "CHUNK_ENTRIES", 4)
    where = Location.from_url(str(tmp_path))
    write_array(where.open(read_only=False), "group/array", np.arange(9))
    write_array(where.open(read_only=False), "group/array", np.arange(3))
    assert files_below(tmp_path) == as_zarr_writes(np.arange(3), 4)


def with_checksum(packed):
    return packed + google_crc32c.value(packed).to_bytes(4, "little")


@pytest.mark.parametrize(
    "change",
    [
        lambda chunk: b"",
        lambda chunk: chunk[:3],
        lambda chunk: chunk[:-5] + bytes([chunk[-5] ^ 1]) + chunk[-4:],
        lambda chunk: with_checksum(chunk[:10]),
        # Its header promises another length than the array has.
        lambda chunk: with_checksum(chunk[:4] + (9000).to_bytes(4, "little") + chunk[8:-4]),
        lambda chunk: with_checksum(chunk[:4] + (8).to_bytes(4, "little") + chunk[8:-4]),
        lambda chunk: array_files.encode_array(np.arange(99))["c/0"],
    ],
    ids=["empty", "cut", "a bit", "no header", "too long", "too short", "another chunk"],
)
def test_a_changed_chunk_is_damaged(change, tmp_path):
    where = Location.from_url(str(tmp_path))
    write_array(where.open(read_only=False), "group/array", np.arange(100))
    file = tmp_path / "group/array/c/0"
    file.write_bytes(change(file.read_bytes()))
    assert arrays._read_directly(where.open(), "group/array") is None
    with pytest.raises(StoreError, match=r"block group: array.*damaged"):
        read_array(where, "group/array")


@pytest.mark.parametrize("chunk", ["c/0", "c/1", "c/5"])
def test_a_chunk_that_is_not_there_is_said(chunk, monkeypatch, tmp_path):
    monkeypatch.setattr(array_files, "CHUNK_ENTRIES", 4)
    where = Location.from_url(str(tmp_path))
    write_array(where.open(read_only=False), "group/array", np.arange(23))
    assert read_array(where, "group/array").tolist() == [*range(23)]
    (tmp_path / "group/array" / chunk).unlink()
    with pytest.raises(StoreError, match=r"block group: array.*chunk"):
        read_array(where, "group/array")


LESS = array_files._format_metadata(np.dtype("<i8"), -5)


@pytest.mark.parametrize("metadata", [b"", b"{", b"[]", b"{}", b'{"data_type": "int64", "shape": []}', LESS])
def test_metadata_of_no_array_are_damaged(metadata, tmp_path):
    where = Location.from_url(str(tmp_path))
    write_array(where.open(read_only=False), "group/array", np.arange(100))
    (tmp_path / "group/array/zarr.json").write_bytes(metadata)
    assert array_files.ArrayMetadata.from_metadata(metadata) is None
    with pytest.raises(StoreError, match=r"block group: array"):
        read_array(where, "group/array")


def endless(file, kind):
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as large:
            large.truncate(1 << 40)  # a hole, which takes no space


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
@pytest.mark.parametrize("name", ["array/c/0", "array/zarr.json", "zarr.json", "c/0/0"])
def test_files_without_end_are_named(name, kind, tmp_path):
    said = f"{name}.*(regular|1099511627776 bytes)"
    if name == "c/0/0":  # of a model
        save(SketchedPCA(1).fit(np.eye(3)), str(tmp_path / "model"))
        endless(next(tmp_path.glob(f"model/arrays-0000/*/{name}")), kind)
        with pytest.raises(StoreError, match=said):
            load(str(tmp_path / "model"))
        return
    where = Location.from_url(str(tmp_path))
    write_array(where.open(read_only=False), "group/array", np.arange(100))
    endless(tmp_path / "group" / name, kind)
    with pytest.raises(StoreError, match=f"group/{said}"):
        _ = where.read_attributes("group"), read_array(where, "group/array")
