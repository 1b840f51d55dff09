"""Coordinates on disk: written in chunks with ids, gone on with after a kill, read and searched."""

import json
import re
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from sklearn.pipeline import make_pipeline

from dspectral import (
    NgramHashing,
    SketchedPCA,
    Texts,
    TfidfWeighting,
    Topics,
    TruncatedSVD,
    VocabularySettings,
    build_store,
    nearest,
    open_coordinates,
    write_coordinates,
)
from dspectral.store import StoreError, coordinates

WORDS = ["cats purr sleep", "dogs bark run", "ships sail far"]
RECORDS = [{"key": f"k{i}", "body": f"{WORDS[i % 3]} {WORDS[i % 3].split()[i % 2]} {i % 4}x"} for i in range(60)]
FORMS = ["zarr", "parquet"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return build_store(
        Texts(RECORDS),
        str(tmp_path_factory.mktemp("coordinates") / "store.zarr"),
        field="body",
        id_field="key",
        keep_texts=True,
        vocabulary=VocabularySettings(),
        block_bytes=200,
    )


@pytest.fixture(scope="module")
def svd(store):
    return TruncatedSVD(3).fit(store.tfidf())


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_coordinates_and_ids_of_every_model_come_back(store, svd, form, tmp_path):
    cut = store[7:3:-1]
    pca, topics = SketchedPCA(2).fit(store), Topics(3, min_df=1, max_df=0.4).fit(store)
    for number, (model, rows) in enumerate([(svd, store.tfidf()), (pca, store), (topics, store), (pca, cut)]):
        out = str(tmp_path / f"{number}.{form}")
        saved = model.transform(rows, out=out)
        assert np.array_equal(saved.array.compute(), model.transform(rows).compute())
        again = open_coordinates(out)
        assert (again.head, again.ids) == (saved.head, cut.ids if rows is cut else store.ids)
    assert store.n_blocks > 3
    assert len(saved) == 4
    topics.coordinates(store, out=str(tmp_path / f"c.{form}"))
    actual = open_coordinates(str(tmp_path / f"c.{form}")).array.compute()
    assert np.array_equal(actual, topics.coordinates(store).compute())


@pytest.mark.parametrize("form", FORMS)
def test_the_same_call_goes_on_after_a_failure_with_the_same_bytes(store, svd, form, tmp_path, monkeypatch):
    whole, cut = (str(tmp_path / f"{name}.{form}") for name in ("whole", "cut"))
    monkeypatch.setattr(coordinates, "CHUNK_BYTES", 300)  # chunks that are not blocks
    svd.transform(store.tfidf(), out=whole)
    written, made = coordinates.Coordinates.write, []

    def fails(self, chunk, *content):
        if len(made) == 2:
            raise RuntimeError("killed")
        made.append(chunk)
        return written(self, chunk, *content)

    monkeypatch.setattr(coordinates.Coordinates, "write", fails)
    with dask.config.set(scheduler="sync"), pytest.raises(RuntimeError, match="killed"):
        svd.transform(store.tfidf(), out=cut)
    with pytest.raises(StoreError, match=re.escape(str(cut))):
        open_coordinates(cut)
    first = list(made)

    def goes_on(self, chunk, *content):
        made.append(chunk)
        return written(self, chunk, *content)

    monkeypatch.setattr(coordinates.Coordinates, "write", goes_on)
    with pytest.raises(StoreError, match=rf"{re.escape(cut)}.*model"):
        TruncatedSVD(3).fit(store).transform(store, out=cut)
    saved = svd.transform(store.tfidf(), out=cut)
    assert sorted(made) == list(range(saved.n_chunks))
    assert made[:2] == first
    assert saved.n_chunks > 4
    assert files_of(cut) == files_of(whole)
    svd.transform(store.tfidf(), out=cut)
    assert len(made) == saved.n_chunks


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_search_of_saved_coordinates_is_that_of_the_store(store, svd, form, tmp_path):
    pipeline = make_pipeline(TfidfWeighting(), TruncatedSVD(3)).fit(store)
    for number, model in enumerate([svd, pipeline, Topics(3, min_df=1, max_df=0.4).fit(store)]):
        write_coordinates(model, store, str(tmp_path / f"{number}.{form}"))
        saved = open_coordinates(str(tmp_path / f"{number}.{form}"))
        for query in ("dogs bark", 7, [3, 11], [WORDS[0], WORDS[2]]):
            actual, expected = nearest(model, saved, query, n=4), nearest(model, store, query, n=4)
            assert actual == expected
    assert expected[0][0].id.startswith("k")


def test_rows_in_memory_are_written_too(tmp_path):
    texts = [record["body"] for record in RECORDS]
    model = make_pipeline(NgramHashing(2**10), TruncatedSVD(3)).fit(texts)
    saved = write_coordinates(model, texts, str(tmp_path / "texts.zarr"))
    assert saved.ids is None
    assert write_coordinates(model, texts, str(tmp_path / "texts.zarr")).digests == saved.digests
    assert np.array_equal(saved.array.compute(), model.transform(texts))
    assert [near.row % 3 for near in nearest(model, saved, "ships sail", n=3)] == [2, 2, 2]
    assert nearest(None, saved, 4, n=2) == nearest(None, model.transform(texts), 4, n=2)


def test_parquet_is_read_by_others(store, svd, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    svd.transform(store.tfidf(), out=str(tmp_path / "z.parquet"))
    table = parquet.read_table(tmp_path / "z.parquet")
    assert table.column_names == ["row", "id", "coordinates"]
    assert table["id"].to_pylist() == store.ids
    assert np.allclose(np.array(table["coordinates"].to_pylist()), svd.transform(store.tfidf()).compute())


def test_damage_and_other_content_are_named(store, svd, tmp_path):
    out = tmp_path / "z.zarr"
    svd.transform(store.tfidf(), out=str(out))
    (out / "coordinates" / "c" / "0" / "0").unlink()
    with pytest.raises(StoreError, match="rows 0 to"):
        open_coordinates(str(out)).array.compute()
    for wrong in ("z.csv", "store.zarr"):
        place = str(tmp_path / wrong) if wrong == "z.csv" else store.location.url
        with pytest.raises(ValueError, match=wrong):
            svd.transform(store.tfidf(), out=place)
    reference = zarr.open_group(str(tmp_path / "theirs.zarr"), mode="w", attributes={"of": "another program"})
    for call in (open_coordinates, lambda place: svd.transform(store.tfidf(), out=place)):
        with pytest.raises(StoreError, match=r"theirs\.zarr"):
            call(str(tmp_path / "theirs.zarr"))
    assert dict(reference.attrs) == {"of": "another program"}
    with pytest.raises(StoreError, match=r"none\.parquet"):
        open_coordinates(str(tmp_path / "none.parquet"))
    assert json.loads((out / "zarr.json").read_text())["attributes"][coordinates.KEY]["finished"]
