"""Every kind of text: the same rows and ids as from a file with the same lines, wherever text is taken."""

import gzip
import io
import json

import dask.bag
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dspectral import (
    NgramHashing,
    TextFiles,
    Texts,
    VocabularySettings,
    build_corpus,
    build_store,
    open_store,
)
from tests.store.interrupted import stopped_at

HASHING = NgramHashing(128, (1, 2))
LINES = [f'The caf\xe9 word{i % 7} sat; on "mat" {i}' if i % 9 else "" for i in range(60)]
FRAME = {"id": range(len(LINES)), "body": LINES}
SMALL = 1000
"""Bytes of a block, so that there are two."""


def generated():
    yield from LINES


def records():
    yield from ({"id": i, "body": line} for i, line in enumerate(LINES))


def hf(column):
    datasets = pytest.importorskip("datasets", reason="Hugging Face Datasets is not installed")
    table = datasets.Dataset.from_dict({"id": list(range(len(LINES))), "body": LINES})
    return table["body"] if column else table


def frame(n_partitions=3):
    return dask.dataframe.from_pandas(pd.DataFrame(FRAME), npartitions=n_partitions)


IN_MEMORY = {
    "a list": lambda: (Texts(LINES), {}),
    "a tuple": lambda: (Texts(tuple(LINES)), {}),
    "bytes": lambda: (Texts([line.encode() for line in LINES]), {}),
    "a generator": lambda: (generated(), {}),
    "an iterator": lambda: (iter(LINES), {}),
    "records in a list": lambda: (list(records()), {"field": "body"}),
    "records of a generator": lambda: (records(), {"field": "body"}),
    "numpy": lambda: (np.array(LINES), {}),
    "numpy objects": lambda: (np.array(LINES, dtype=object), {}),
    "pandas categories": lambda: (pd.Series(LINES, dtype="category", index=range(60, 0, -1)), {}),
    "a pandas table": lambda: (pd.DataFrame(FRAME), {"field": "body"}),
    "a polars column": lambda: (pl.Series(LINES), {}),
    "a polars table": lambda: (pl.DataFrame(FRAME), {"field": "body"}),
    "Arrow chunks": lambda: (pa.chunked_array([LINES[:10], LINES[10:]]), {}),
    "an Arrow table": lambda: (pa.table(FRAME), {"field": "body"}),
    "a column of a data set": lambda: (hf(column=True), {}),
    "a data set": lambda: (hf(column=False), {"field": "body"}),
    "a Dask Bag": lambda: (dask.bag.from_sequence(LINES, npartitions=4), {}),
    "a Dask Bag of records": lambda: (dask.bag.from_sequence(records(), npartitions=2), {"field": "body"}),
    "a column of a Dask DataFrame": lambda: (frame()["body"], {}),
    "a Dask DataFrame": lambda: (frame(), {"field": "body"}),
}
TXT = "".join(f"{line}\n" for line in LINES)
JSONL = "".join(json.dumps({"body": line}) + "\n" for line in LINES)


def table(delimiter):
    return pd.DataFrame(FRAME).to_csv(sep=delimiter, index=False)


def parquet():
    file = io.BytesIO()
    pq.write_table(pa.table({"body": LINES}), file, row_group_size=25)
    return file.getvalue()


FILES = {
    "a.txt.gz": (TXT, {}),
    "a.log": (TXT, {"unit": "line"}),
    "a.jsonl": (JSONL, {"field": "body"}),
    "semicolons.csv": (table(";"), {"field": "body"}),
    "bars.csv.gz": (table("|"), {"field": "body"}),
    "carets.csv": (table("^"), {"field": "body", "delimiter": "^"}),
    "a.tsv": ("id\tbody\n" + "".join(f"{i}\t{line}\n" for i, line in enumerate(LINES)), {"field": "body"}),
    "a.parquet": (parquet(), {"field": "body"}),
    "windows.csv": (table(";").encode("cp1252"), {"encoding": "cp1252", "field": "body"}),
    "mark.csv": (table(",").encode("utf-8-sig"), {"field": "body", "encoding": "utf-8-sig"}),
    "wide.txt": (TXT.encode("utf-16"), {"encoding": "utf-16"}),
    "wide.tsv.gz": (
        ("body\tid\n" + "".join(f"{line}\t\n" for line in LINES)).encode("utf-16-le"),
        {"encoding": "utf-16-le", "field": "body"},
    ),
    "wide.csv": (table(",").encode("utf-32"), {"encoding": "utf-32", "field": "body"}),
}


def put(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((gzip.compress if path.suffix == ".gz" else bytes)(data))
    return str(path)


def given(kind, tmp_path):
    if kind in IN_MEMORY:
        return IN_MEMORY[kind]()
    content, options = FILES[kind]
    return put(tmp_path / "given" / kind, content), options


def rows_of(store):
    return store.counts.compute().toarray()


def sentences_of(corpus):
    blocks = [corpus.sentences.read(block) for block in corpus.blocks]
    return [block.sentence(i).tolist() for block in blocks for i in range(block.n_sentences)]


@pytest.fixture(scope="module")
def of_file(tmp_path_factory):
    """What is built of a file of lines."""
    folder = tmp_path_factory.mktemp("file")
    path = put(folder / "lines.txt", TXT)
    corpus = build_corpus(path, str(folder / "c"), min_count=2, block_bytes=SMALL)
    counted = build_store(path, str(folder / "v"), vocabulary=VocabularySettings((1, 2)), block_bytes=SMALL)
    return {
        "rows": HASHING.transform(LINES).toarray(),
        "words": corpus.words,
        "sentences": sentences_of(corpus),
        "counted": rows_of(counted),
        "terms": counted.vocabulary.terms,
    }


ONE_BLOCK = ("a.parquet", "wide.csv")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*IN_MEMORY, *FILES])
def test_every_kind_of_text_becomes_the_same_rows_and_the_same_corpus(tmp_path, kind, of_file):
    sources, options = given(kind, tmp_path)
    store = build_store(sources, str(tmp_path / "s"), hashing=HASHING, block_bytes=SMALL, **options)
    np.testing.assert_array_equal(rows_of(store), of_file["rows"])
    assert store.n_blocks > 1 or kind in ONE_BLOCK
    assert json.loads(json.dumps(store.provenance)) == store.provenance

    sources, options = given(kind, tmp_path)
    corpus = build_corpus(sources, str(tmp_path / "c"), min_count=2, block_bytes=SMALL, **options)
    assert (corpus.words, sentences_of(corpus)) == (of_file["words"], of_file["sentences"])

    sources, options = given(kind, tmp_path)
    if kind in FILES:
        sources = TextFiles(sources, block_bytes=SMALL, **options)
    elif options:
        sources = Texts(sources, **options)
    rows = HASHING.fit_transform(sources)
    rows = rows.compute() if hasattr(rows, "compute") else rows
    np.testing.assert_array_equal(rows.toarray(), of_file["rows"])

    if kind in ("a generator", "a Dask Bag", "a polars table", "semicolons.csv", "wide.txt"):
        sources, options = given(kind, tmp_path)
        settings = VocabularySettings((1, 2))
        counted = build_store(sources, str(tmp_path / "v"), vocabulary=settings, block_bytes=SMALL, **options)
        assert counted.vocabulary.terms == of_file["terms"]
        np.testing.assert_array_equal(rows_of(counted), of_file["counted"])
    assert not list(tmp_path.glob("*/scratch"))


def test_a_generator_is_never_held_whole(tmp_path, monkeypatch):
    alive, most = set(), [0]

    class Counted(str):
        __slots__ = ()

        def __new__(cls, text):
            made = super().__new__(cls, text)
            alive.add(id(made))
            most[0] = max(most[0], len(alive))
            return made

        def __del__(self):
            alive.discard(id(self))

    store = build_store(
        (Counted(f"word{i} " * 20) for i in range(400)),
        str(tmp_path / "s"),
        hashing=HASHING,
        block_bytes=2000,
    )
    assert store.n_rows == 400
    assert most[0] < 50


def test_a_dask_collection_is_read_partition_by_partition_and_once(tmp_path):
    read = []

    def noted(lines):
        read.append(len(lines))
        return lines

    bag = dask.bag.from_sequence(LINES, npartitions=5).map_partitions(noted)
    with dask.config.set(scheduler="synchronous"):
        build_corpus(bag, str(tmp_path / "c"))
    assert read == [12] * 5
    rows = HASHING.transform(bag)
    assert rows.chunks[0] == (12,) * 5


def test_lines_of_records_and_texts_are_sentences_by_default(tmp_path):
    texts = ["the cat\nsat\r\non a mat\n", "", "the dog"]
    whole = [["the", "cat", "sat", "on", "a", "mat"], [], ["the", "dog"]]
    lines = [["the", "cat"], ["sat"], ["on", "a", "mat"], [], ["the", "dog"]]
    path = put(tmp_path / "a.jsonl", "".join(json.dumps({"t": text}) + "\n" for text in texts))
    for n, (sources, options) in enumerate([(path, {"field": "t"}), (Texts(texts), {})]):
        for unit, expected in ((None, lines), ("line", lines), ("field", whole)):
            corpus = build_corpus(sources, str(tmp_path / f"c{n}{unit}"), unit=unit, **options)
            assert [[corpus.words[word] for word in ids] for ids in sentences_of(corpus)] == expected
    files = [put(tmp_path / "texts" / f"{i}.txt", text) for i, text in enumerate(texts)]
    corpus = build_corpus(files, str(tmp_path / "files"), unit="file")
    assert [[corpus.words[word] for word in ids] for ids in sentences_of(corpus)] == whole


def test_a_list_of_sentences_is_told_from_a_list_of_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"dspectral\.Texts\(\[\.\.\.\]\)"):
        build_corpus(("is it?", "the dog"), str(tmp_path / "s"))
    with pytest.raises(FileNotFoundError, match=r"the cat sat(?!.*Texts)"):
        build_store("the cat sat", str(tmp_path / "s"))
    put(tmp_path / "texts" / "a.txt", "cat\n")
    put(tmp_path / "texts" / "b.txt", "dog\n")
    assert build_store((tmp_path / "texts").glob("*.txt"), str(tmp_path / "s")).n_rows == 2


def stops_at(number):
    for i, line in enumerate(LINES):
        if i == number:
            raise KeyboardInterrupt
        yield line


def test_interrupted_build_resumes_with_the_same_texts_alone(tmp_path, of_file):
    store = str(tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):  # while texts are kept: the next call begins anew
        build_store(stops_at(40), store, hashing=HASHING, block_bytes=SMALL)
    of_texts = Texts(LINES[::-1])
    stopped_at("blocks/0000-000000", lambda: build_store(of_texts, store, hashing=HASHING, block_bytes=SMALL))
    marker = tmp_path / "s/blocks/0000-000001-000000/zarr.json"
    before = marker.stat().st_mtime_ns
    stopped_at("blocks/0000-000000", lambda: build_store(of_texts, store, hashing=HASHING, block_bytes=SMALL))
    assert marker.stat().st_mtime_ns == before
    stopped_at("blocks/0000-000000", lambda: build_store(iter(LINES), store, hashing=HASHING, block_bytes=SMALL))
    assert marker.stat().st_mtime_ns > before
    built = build_store(iter(LINES[::-1]), store, hashing=HASHING, block_bytes=SMALL)
    np.testing.assert_array_equal(rows_of(built), of_file["rows"][::-1])
    assert open_store(store).n_rows == len(LINES)
