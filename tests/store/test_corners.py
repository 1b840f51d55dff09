import fsspec
import numpy as np
import pytest

from dspectral import NgramHashing, build_store, open_store, write_counts
from dspectral.store.arrays import read_stored_group, write_stored_group
from dspectral.store.from_text.lines import ReadOptions
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.location import Location, StoreError
from tests.store.from_text.texts import spans_of, texts

SMALL = NgramHashing(n_features=64)


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "store")


def test_a_file_in_memory_is_read_by_several_at_once():
    lines = [f"line {i}" for i in range(20)]
    with fsspec.open("memory://several.txt", "w") as file:
        file.write("\n".join(lines))
    readers = [
        read_file_range(span, ReadOptions(block_bytes=8)) for span in spans_of("memory://several.txt", span_bytes=40)
    ]
    first = [[next(reader)] for reader in readers]
    assert texts([*head, *reader] for head, reader in zip(first, readers, strict=True)) == lines


def test_small_files_are_read_and_blocked_together(tmp_path, url):
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text(f"document {i}\n" * 2)
    (tmp_path / "a.txt").write_text("large\n" * 20)
    spans = spans_of(str(tmp_path / "*.txt"), span_bytes=100)
    assert [len(span.files()) for span in spans] == [4, 4, 2, 1, 1]
    assert [span.n_bytes for span in spans] == [88, 88, 44, 100, 20]
    expected = [f"document {i // 2}" for i in range(20)] + ["large"] * 20
    assert texts(read_file_range(span, ReadOptions(block_bytes=64)) for span in spans) == expected
    store = build_store(str(tmp_path / "*.txt"), url, unit="file", hashing=SMALL)
    assert store.block_rows == [11]
    for name, content in {"a": "text\tx\none\t.", "b": "x\ttext\n.\ttwo", "c": "x\ttext\n.\tthree"}.items():
        (tmp_path / f"{name}.tsv").write_text(f"{content}\n")
    spans = spans_of(str(tmp_path / "*.tsv"), field="text")
    assert [len(span.files()) for span in spans] == [1, 2]  # those of other columns are read alone
    assert texts(map(read_file_range, spans)) == ["one", "two", "three"]
    for i in range(3):
        (tmp_path / f"{i}.jsonl").write_text("[]\n" if i == 1 else '{"text": "a"}\n')
    with pytest.raises(ValueError, match=r"1\.jsonl, line 1: "):
        build_store(str(tmp_path / "*.jsonl"), f"{url}-records", field="text", hashing=SMALL)


def test_a_relative_path_is_found_from_any_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written, opened = write_counts(np.eye(2), "here"), open_store("here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for store in (written, opened):
        assert store.counts.compute().toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_record_is_replaced_beside_files_that_killed_writers_left(tmp_path):
    where = Location(str(tmp_path))
    write_stored_group(where, {"number": 1}, [np.ones(2)])
    (tmp_path / f"zarr.{'0' * 32}.partial").touch()
    write_stored_group(where, {"number": 2}, [np.array([np.nan, 3.0])])
    record = read_stored_group(where)
    assert record.attributes["number"] == 2
    np.testing.assert_array_equal(record.array(0), [np.nan, 3.0])
    (folder,) = tmp_path.glob("arrays-*")
    (folder / "0" / "c" / "0").unlink()
    with pytest.raises(StoreError, match=f"array {folder.name}/0 lacks chunk 0"):
        record.array(0)
