"""Dense vectors from Parquet, .npy files and arrays: read lazily in blocks, decomposed, searched and written."""

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

from dspectral import PCA, TruncatedSVD, nearest, read_vectors, write_coordinates
from dspectral.io import vectors

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
X = np.random.default_rng(0).standard_normal((500, 12)).astype(np.float16)


def column_of(rows, kind="fixed"):
    flat = pa.array(np.asarray(rows).reshape(-1))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    offsets = np.arange(0, rows.size + 1, rows.shape[1])
    make = {"list": (pa.ListArray, np.int32), "large": (pa.LargeListArray, np.int64)}[kind]
    return make[0].from_arrays(pa.array(offsets.astype(make[1])), flat)


def write_parquet(path, column, **options):
    parquet.write_table(pa.table({"key": [str(i) for i in range(len(column))], "embedding": column}), path, **options)
    return str(path)


def three_files(folder, dtype, kind):
    for number, rows in enumerate(np.split(X.astype(dtype), [200, 201])):
        write_parquet(folder / f"{number}.parquet", column_of(rows, kind), row_group_size=70)
    return str(folder / "*.parquet")


def saved_as_npy(folder, dtype):
    np.save(folder / "a.npy", X[:300].astype(dtype))
    np.save(folder / "b.npy", X[300:].astype(dtype))
    return [str(folder / "a.npy"), folder / "b.npy"]


def memory_map(folder):
    np.save(folder / "all.npy", X)
    return np.load(folder / "all.npy", mmap_mode="r")


def zarr_array(folder):
    array = zarr.create_array(str(folder / "all.zarr"), shape=X.shape, dtype=X.dtype, chunks=(50, 12))
    array[:] = X
    return array


SOURCES = {
    "fixed float16": lambda folder: three_files(folder, np.float16, "fixed"),
    "list float32": lambda folder: three_files(folder, np.float32, "list"),
    "large list float64": lambda folder: three_files(folder, np.float64, "large"),
    "npy": lambda folder: saved_as_npy(folder, np.float16),
    "npy float64": lambda folder: saved_as_npy(folder, np.float64),
    "memory map": memory_map,
    "Zarr": zarr_array,
    "Dask": lambda folder: da.from_array(X, chunks=(90, 12)),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("block_bytes", [64 << 20, 1000])
def test_vectors_of_every_source_are_those_written(name, block_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(vectors, "MAX_BLOCK_BYTES", 2 * block_bytes)
    rows = read_vectors(SOURCES[name](tmp_path))
    assert rows.dtype == (np.float64 if "64" in name else np.float32)
    np.testing.assert_array_equal(rows.compute(), X)
    if name.split()[0] in ("fixed", "list", "large", "npy"):
        sizes = [size * 12 * rows.dtype.itemsize for size in rows.chunks[0]]
        assert max(sizes) <= 2 * block_bytes
        assert (len(sizes) == 1) == (block_bytes > 1000)


def test_models_and_search_take_vectors_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 4000)
    rows, dense = read_vectors(three_files(tmp_path, np.float16, "fixed"), column="embedding"), X.astype(np.float32)
    for model in (PCA(3), TruncatedSVD(3)):
        actual, expected = model.fit(rows).transform(rows), model.fit(dense).transform(dense)
        np.testing.assert_allclose(np.abs(actual.compute()), np.abs(expected), atol=1e-4)
    assert nearest(None, rows, 7, n=3) == nearest(None, dense, 7, n=3)
    saved = write_coordinates(model, rows, tmp_path / "z.parquet", dtype="float16")
    again = read_vectors(tmp_path / "z.parquet")
    np.testing.assert_array_equal(again.compute(), model.transform(rows).compute().astype(np.float16))
    assert saved.array.dtype == np.float16
    files = str(tmp_path / "[012].parquet")  # the same rows by another name: the call finds that all is written
    assert write_coordinates(model, read_vectors(files), tmp_path / "z.parquet", dtype="float16").head == saved.head
    assert str(parquet.read_schema(tmp_path / "z.parquet" / "part-000000.parquet").field("coordinates").type) == (
        "fixed_size_list<element: halffloat>[3]"
    )
    assert nearest(None, saved, 7, n=3)[0].row == nearest(None, again, 7, n=3)[0].row


def test_memory_follows_the_blocks_and_not_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 2 << 20)
    rows = np.random.default_rng(0).standard_normal((60_000, 256)).astype(np.float32)  # 61 MB
    path = write_parquet(tmp_path / "all.parquet", column_of(rows), row_group_size=1000)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with dask.config.set(scheduler="sync"):
            model = PCA(4).fit(read_vectors(path))
            write_coordinates(model, read_vectors(path), tmp_path / "z.zarr", dtype="float16")
        peak = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < 20 << 20


def npy_by_columns(folder):
    np.save(folder / "a.npy", np.asfortranarray(X))
    return folder / "a.npy"


def npy_of_texts(folder):
    np.save(folder / "a.npy", np.full((2, 2), "a"))
    return folder / "a.npy"


def two_widths(folder):
    write_parquet(folder / "a.parquet", column_of(X))
    write_parquet(folder / "b.parquet", column_of(X[:, :5]))
    return folder


def parquet_of(column):
    return lambda folder: write_parquet(folder / "a.parquet", column)


@pytest.mark.parametrize(
    ("make", "column", "named"),
    [
        (parquet_of(pa.array([[1.0, 2.0], [1.0]])), None, r"a\.parquet.*row 1.* 1 numbers.* 2 "),
        (parquet_of(pa.array([[1.0, 2.0], None])), None, r"a\.parquet.*row 1"),
        (parquet_of(pa.array([None, [1.0, 2.0]])), None, r"a\.parquet.*'embedding'.*row 0"),
        (parquet_of(pa.array([None, [1.0]], pa.list_(pa.float32(), 1))), None, r"a\.parquet.*row 0"),
        (parquet_of(pa.array([[1.0, 2.0], [3.0, None]])), None, r"a\.parquet.*row 1.*null"),
        (parquet_of(pa.array([["a"]])), None, r"a\.parquet.*object"),
        (parquet_of(pa.array([1.0])), None, r"a\.parquet.*column=None.*none"),
        (parquet_of(pa.array([[1.0]])), "key", r"a\.parquet.*'key'.*'embedding'"),
        (parquet_of(pa.array([], pa.list_(pa.float32(), 3))), None, "no rows"),
        (two_widths, None, "12 and 5|5 and 12"),
        (npy_by_columns, None, r"a\.npy.*\(500, 12\).*columns"),
        (npy_of_texts, None, r"a\.npy.*<U1"),
    ],
)
def test_invalid_vectors_are_refused_with_their_place(make, column, named, tmp_path):
    with pytest.raises(ValueError, match=named):
        read_vectors(make(tmp_path), column=column).compute()


def test_values_beyond_the_written_type_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"1e\+05.*float16"):
        write_coordinates(None, np.full((2, 2), 1e5), tmp_path / "z.zarr", dtype="float16")
