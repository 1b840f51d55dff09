"""Ids and texts beside the counts: from every kind of source, at any cut, appended, resumed and checked."""

import json

import dask.bag
import dask.dataframe
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from dspectral import Texts, Topics, TruncatedSVD, VocabularySettings, build_store, nearest, open_store
from dspectral.store import StoreError

TEXTS = [f"cat {'dog' if i % 2 else 'ship'} {'é' * (i % 5)} number{i}" for i in range(40)]
RECORDS = [{"key": f"k{i}", "number": 7 * i, "body": text} for i, text in enumerate(TEXTS)]


def written(kind, folder):
    if kind == "table":
        return Texts(pa.Table.from_pylist(RECORDS))
    path = folder / f"records.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=7)
    elif kind.startswith("jsonl"):
        path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    else:
        sign = "," if kind == "csv" else "\t"
        lines = [sign.join(map(str, record.values())) for record in RECORDS]
        path.write_text("\n".join([sign.join(RECORDS[0]), *lines]) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet", "table"])
@pytest.mark.parametrize("id_field", ["key", "number"])
@pytest.mark.parametrize("block_bytes", [600, 1 << 20])
def test_every_row_has_its_id_and_text(tmp_path, kind, id_field, block_bytes):
    given = {"field": "body", "id_field": id_field, "keep_texts": True, "block_bytes": block_bytes}
    vocabulary = VocabularySettings() if block_bytes == 600 else None
    store = build_store(written(kind, tmp_path), str(tmp_path / "store"), vocabulary=vocabulary, **given)
    assert (store.n_blocks > 1) == (block_bytes == 600 or kind == "parquet")
    assert store.ids == [str(record[id_field]) for record in RECORDS]
    assert store.text(range(40)) == TEXTS
    assert store.text([39, 0, 39]) == [TEXTS[39], TEXTS[0], TEXTS[39]]
    assert store.text(5) == TEXTS[5]
    store.check()


def test_appended_rows_have_theirs_by_the_settings_of_the_store(tmp_path):
    where = str(tmp_path / "store")
    given = {"field": "body", "id_field": "key", "keep_texts": True}
    build_store(RECORDS[:25], where, **given)
    store = build_store(RECORDS[25:], where, field="body", append=True)
    assert store.ids == [record["key"] for record in RECORDS]
    assert store.text([0, 25, 39]) == [TEXTS[0], TEXTS[25], TEXTS[39]]
    build_store(RECORDS, f"{where}-2", field="body")
    for name in ("id_field", "keep_texts"):
        with pytest.raises(StoreError, match=name):
            build_store(RECORDS, f"{where}-2", field="body", append=True, **{name: given[name]})


def test_what_is_found_has_them_too(tmp_path):
    store = build_store(RECORDS, str(tmp_path / "store"), field="body", id_field="key", keep_texts=True)
    near = nearest(TruncatedSVD(3).fit(store.tfidf()), store, TEXTS[6], n=2)[0]
    assert (near.id, near.text) == (f"k{near.row}", TEXTS[near.row])
    documents = Topics(2, min_df=2, max_df=0.6).fit(store).top_documents(3)
    assert all((one.id, one.text) == (f"k{one.row}", TEXTS[one.row]) for of_topic in documents for one in of_topic)


def test_a_row_that_is_not_there_and_a_damaged_text_are_named(tmp_path):
    store = build_store(Texts(TEXTS), str(tmp_path / "store"), keep_texts=True)
    with pytest.raises(IndexError, match=r"row 40 .* 40 rows"):
        store.text([3, 40])
    next((tmp_path / "store").glob("blocks/*/texts/data/c/0")).write_bytes(b"other")
    for read in (lambda: store.text(0), open_store(str(tmp_path / "store")).check):
        with pytest.raises(StoreError, match="texts: data"):
            read()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sources",
    [
        lambda: (record for record in RECORDS),
        lambda: Texts(dask.bag.from_sequence(RECORDS, npartitions=3)),
        lambda: dask.dataframe.from_pandas(pd.DataFrame(RECORDS), npartitions=3),
        lambda: dask.bag.from_sequence(RECORDS, npartitions=4).map(dict),
    ],
    ids=["generator", "texts of a bag", "frame", "bag"],
)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_records_that_are_read_once_give_their_ids_with_their_texts(tmp_path, sources, block_bytes):
    given = {"field": "body", "id_field": "key", "keep_texts": True, "block_bytes": block_bytes}
    store = build_store(sources(), str(tmp_path / "store"), **given)
    assert store.ids == [record["key"] for record in RECORDS]
    assert store.text(range(len(store))) == [record["body"] for record in RECORDS]
