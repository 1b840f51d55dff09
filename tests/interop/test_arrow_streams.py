"""Tables that are read in batches through Arrow's stream interface: the store of a Parquet file with the same rows."""

import pytest

from dspectral import build_corpus, build_store

RECORDS = {"key": [f"k{i}" for i in range(50)], "body": [f"word{i % 7} and word{i % 5}" for i in range(50)]}


def table():
    return pytest.importorskip("pyarrow").table(RECORDS)


def dataset(folder):
    arrow_dataset = pytest.importorskip("pyarrow.dataset")
    return arrow_dataset.dataset(str(folder / "rows.parquet"))


def lazy_frame(folder):
    return pytest.importorskip("polars").scan_parquet(folder / "rows.parquet")


def relation(folder):
    return pytest.importorskip("duckdb").read_parquet(str(folder / "rows.parquet"))


def in_memory(_folder):
    return table()


def reader(_folder):
    return table().to_reader(max_chunksize=7)


def data_frame(_folder):
    return pytest.importorskip("pandas").DataFrame(RECORDS)


@pytest.mark.parametrize("source", [dataset, lazy_frame, relation, in_memory, reader, data_frame])
def test_a_stream_becomes_the_store_of_a_file_with_its_rows(source, tmp_path):
    pytest.importorskip("pyarrow.parquet").write_table(table(), tmp_path / "rows.parquet")
    options = {"field": "body", "block_bytes": 200}
    expected = build_store(str(tmp_path / "rows.parquet"), str(tmp_path / "expected"), **options)
    ids = {"id_field": "key"}
    actual = build_store(source(tmp_path), str(tmp_path / "found"), **options, **ids)
    assert [(block.n_rows, block.digest) for block in actual.blocks] == [
        (block.n_rows, block.digest) for block in expected.blocks
    ]
    assert actual.n_blocks > 3
    assert actual.ids == RECORDS["key"]
    corpus = build_corpus(source(tmp_path), str(tmp_path / "corpus"), field="body")
    assert corpus.n_sentences == 50
    with pytest.raises((ValueError, TypeError), match="other"):
        build_store(source(tmp_path), str(tmp_path / "wrong"), field="other")
