"""Documents that are longer than what is asked for: refused, read as empty, or cut, and said."""

import json

import dask.bag as db
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dspectral import Texts, build_corpus, build_store
from dspectral.store.from_text import lines as limits
from dspectral.store.from_text.lines import DocumentSizeLimit, ReadCounts, ReadOptions
from dspectral.store.from_text.readers import read_file_range
from tests.store.from_text.texts import COMPRESS, put, spans_of

LINES = ["short", "x" * 30, "", "häuser " * 3, "end"]
FORMATS = {
    "txt": ("\n".join(LINES) + "\n", {}),
    "jsonl": ("".join(json.dumps({"text": line}) + "\n" for line in LINES), {"field": "text"}),
    "csv": ("id,text\n" + "".join(f'1,"{line}"\n' for line in LINES), {"field": "text"}),
    "tsv": ("id\ttext\n" + "".join(f"1\t{line}\n" for line in LINES), {"field": "text"}),
}


@pytest.fixture
def small_records(monkeypatch):
    """Let records be as short as texts are in tests."""
    monkeypatch.setattr(limits, "RECORD_BYTES", 48)


def read(url, longest, *, block_bytes=1 << 20, span_bytes=16 << 20, **options):
    found = ReadCounts()
    spans, read_options = (
        spans_of(url, span_bytes=span_bytes, **options),
        ReadOptions(block_bytes=block_bytes, max_document_bytes=longest.n_bytes, long_documents=longest.treatment),
    )
    blocks = [b for span in spans for b in read_file_range(span, read_options._replace(counts=found))]
    return [b.text(i).decode() for b in blocks for i in range(b.n_documents)], found


def parquet(texts, path):
    pq.write_table(pa.table({"text": texts}), path, row_group_size=3)
    return str(path)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("ending", COMPRESS)
def test_long_documents_are_skipped_truncated_or_an_error_in_every_format(kind, ending):
    content, options = FORMATS[kind]
    url = put(f"long.{kind}{ending}", COMPRESS[ending](content.encode())).replace("//", "///")
    line = {"txt": 2, "jsonl": 2, "csv": 3, "tsv": 3}[kind]
    assert read(url, DocumentSizeLimit(30, "error"), **options)[0] == LINES
    skipped, actual = read(url, DocumentSizeLimit(20, "skip"), **options)
    assert skipped == ["short", "", "", "", "end"]
    assert (actual.n_long, actual.positions) == (
        2,
        [f"{url}, line {line}", f"{url}, line {line + 2}"],
    )
    cut, actual = read(url, DocumentSizeLimit(10, "truncate"), **options)
    assert cut == ["short", "x" * 10, "", "häuser h", "end"]  # the tenth byte would be the first of two
    assert actual.n_long == 2
    with pytest.raises(ValueError, match=rf"line {line}.* 29 bytes.*max_document_bytes"):
        read(url, DocumentSizeLimit(29, "error"), **options)


def test_parquet_cells_and_whole_files_have_the_same_limit(tmp_path):
    path = parquet(LINES, tmp_path / "a.parquet")
    skipped, actual = read(path, DocumentSizeLimit(20, "skip"), field="text")
    assert skipped == ["short", "", "", "", "end"]
    assert actual.positions == [f"{path}, row group 0, row 1", f"{path}, row group 1, row 0"]
    with pytest.raises(ValueError, match=r"row group 0, row 1.*29 bytes"):
        read(path, DocumentSizeLimit(29), field="text")
    path = parquet(["a" * (1 << 20), "b" * (1 << 20)], tmp_path / "long.parquet")
    with pytest.raises(ValueError, match="row group 0, row 0"):
        read(path, DocumentSizeLimit(1 << 10), field="text")  # and is not read
    names = [
        put(f"whole-{i}.txt", text).replace("//", "///") for i, text in enumerate(["\ufeffto be", "or\nnot to be", ""])
    ]
    assert read(names, DocumentSizeLimit(5, "truncate"), unit="file")[0] == ["to be", "or\nno", ""]
    skipped, actual = read(names, DocumentSizeLimit(5, "skip"), unit="file")
    assert (skipped, actual.positions) == (["to be", "", ""], [names[1]])
    with pytest.raises(ValueError, match=r"whole-1.txt.*5 bytes"):
        read(names, DocumentSizeLimit(5), unit="file")


@pytest.mark.parametrize("chunk_bytes", [1, 3, 64])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("span_bytes", [7, 1 << 20])
def test_cuts_change_nothing_of_what_is_skipped(tmp_path, chunk_bytes, end, span_bytes):
    generator = np.random.default_rng(chunk_bytes)
    lines = ["".join(generator.choice(list("abé"), size=n)) for n in generator.integers(0, 14, 60)]
    path = tmp_path / "a.txt"
    path.write_bytes(end.join(lines).encode())
    for treatment, of_long in (
        ("skip", lambda _: ""),
        ("truncate", lambda t: t.encode()[:8].decode("utf-8", "ignore")),
    ):
        expected = [line if len(line.encode()) <= 8 else of_long(line) for line in lines]
        expected = expected[:-1] if not lines[-1] else expected
        actual = read(str(path), DocumentSizeLimit(8, treatment), block_bytes=chunk_bytes, span_bytes=span_bytes)
        assert actual[0] == expected
        assert actual[1].n_long == sum(len(line.encode()) > 8 for line in lines)


def test_places_behind_a_long_line_stay_those_of_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"ok\n" + b"x" * 100 + b"\nok\nbad \xff\n")
    for block_bytes in (4, 1 << 20):
        with pytest.raises(ValueError, match=r"a.txt, line 4.*UTF-8"):
            read(str(path), DocumentSizeLimit(10, "skip"), block_bytes=block_bytes)
    (_, second) = spans_of(str(path), span_bytes=100)
    with pytest.raises(ValueError, match=r"a.txt, byte 111.*UTF-8"):
        list(read_file_range(second, ReadOptions(block_bytes=64, max_document_bytes=10, long_documents="skip")))


def test_texts_of_other_encodings_are_cut_between_characters():
    for encoding in ("utf-16", "shift_jis", "gb18030", "latin-1"):
        text = "né" * 20 if encoding == "latin-1" else "日本" * 20
        url = put("coded.txt", (text + "\nok").encode(encoding))
        (cut, short), actual = read(url, DocumentSizeLimit(13, "truncate"), encoding=encoding)
        assert (short, actual.n_long) == ("ok", 1)
        assert text.startswith(cut)
        assert cut


@pytest.mark.usefixtures("small_records")
def test_records_that_are_too_long_cannot_be_truncated():
    content = json.dumps({"id": "y" * 60, "text": "short"}) + '\n{"text": "ok"}\n'
    url = put("record.jsonl", content)
    assert read(url, DocumentSizeLimit(20, "skip"), field="text")[0] == ["", "ok"]
    with pytest.raises(ValueError, match=r"line 1.*48 bytes.*'skip'"):
        read(url, DocumentSizeLimit(20, "truncate"), field="text")


def test_stores_and_corpora_say_what_was_skipped(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES))
    options = {"max_document_bytes": 20, "long_documents": "skip"}
    for name, build in (("store", build_store), ("corpus", build_corpus)):
        with pytest.warns(UserWarning, match=r"2 document.*20 bytes.*line 2"):
            made = build(str(tmp_path / "a.txt"), str(tmp_path / name), **options)
        assert made.provenance["n_long_documents"] == 2
        assert made.provenance["long_documents_at"][0].endswith("a.txt, line 2")
        assert made.provenance["long_documents"] == "skip"
    with pytest.warns(UserWarning, match="2 document.*9 bytes.*truncated"):
        grown = build_store(
            str(tmp_path / "a.txt"),
            str(tmp_path / "store"),
            append=True,
            max_document_bytes=9,
            long_documents="truncate",
        )
    assert grown.shape[0] == 10
    assert grown.provenance["n_long_documents"] == 2
    assert grown.provenance["appended"][0]["n_long_documents"] == 2
    with pytest.raises(ValueError, match=r"a.txt, line 2.*20 bytes"):
        build_corpus(str(tmp_path / "a.txt"), str(tmp_path / "other"), max_document_bytes=20)
    plain = build_store(str(tmp_path / "a.txt"), str(tmp_path / "plain"))
    assert not {"max_document_bytes", "long_documents", "n_long_documents"} & set(plain.provenance)


@pytest.mark.parametrize("given", [Texts(LINES), iter(LINES), db.from_sequence(LINES, npartitions=2)])
def test_texts_in_memory_have_the_same_limit(given, tmp_path):
    with pytest.warns(UserWarning, match=r"2 document\(s\).*document 1"):
        store = build_store(given, str(tmp_path / "a"), max_document_bytes=20, long_documents="truncate")
    assert (store.shape[0], store.provenance["n_long_documents"]) == (5, 2)
    with pytest.raises(ValueError, match=r"document 1.*20 bytes"):
        build_store(Texts(LINES), str(tmp_path / "b"), max_document_bytes=20)


LOG = [
    "2026-11-27 04:13:09 ERROR request failed\nTraceback (most recent call last):\n  File a, line 12\nValueError: x",
    "2026-11-27 04:13:10 INFO served",
    "2026-11-27 04:13:12 WARN slow\n\n\tat b.c(D.java:7)",
    *(f"2026-11-27 04:14:{i:02} INFO step {i}" + "\n  detail" * (i % 4) for i in range(60)),
]


@pytest.mark.parametrize("span_bytes", [30, 100, 1000, 1 << 20])
def test_a_record_of_a_log_is_a_line_with_a_time_and_the_lines_after_it(tmp_path, span_bytes):
    """Byte ranges that begin inside of a record leave it to the range before."""
    path = tmp_path / "app.log"
    path.write_text("\n".join(["started", *LOG]) + "\n\n", encoding="utf-8")
    texts, _ = read(str(path), DocumentSizeLimit(), unit="record", span_bytes=span_bytes, block_bytes=400)
    assert texts == ["started", *LOG]


def test_a_record_that_is_too_long_is_named_by_its_first_line_or_cut(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("\n".join(LOG), encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1: .*80"):
        read(str(path), DocumentSizeLimit(80), unit="record")
    for span_bytes in (30, 1 << 20):
        texts, counts = read(str(path), DocumentSizeLimit(80, "truncate"), unit="record", span_bytes=span_bytes)
        assert texts == [LOG[0][:80], *LOG[1:]]
        assert counts.n_long == 1


@pytest.mark.slow
@pytest.mark.usefixtures("small_records")
@pytest.mark.parametrize("treatment", ["error", "skip", "truncate"])
def test_unclosed_quote_is_an_error_before_the_file_is_in_memory(treatment):
    url = put("open.csv", 'id,text\n1,ok\n2,"never closed\n' + "3,more\n" * 1000)
    with pytest.raises(ValueError, match=r"open.csv, line 3"):
        read(url, DocumentSizeLimit(20, treatment), field="text")
