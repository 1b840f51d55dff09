"""Random bytes, mutated files and bombs for every reader: a result or one sentence, within a bound of memory."""

import bz2
import gzip
import io
import itertools
import json
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from dspectral import TextFiles, build_corpus, build_store, read_word2vec, write_word2vec
from dspectral.io import (
    build_labeled_store,
    read_brown_paths,
    read_conll,
    read_labeled_records,
    word2vec,
)
from dspectral.store.from_text import lines, sources
from tests.bad_inputs import outcome

LINES = [f'the cat number {i} sat on häuser, maybe "so"; it\'s' for i in range(12)]


def parquet_bytes():
    file = io.BytesIO()
    pq.write_table(pa.table({"text": LINES, "label": ["a", "b"] * 6}), file, row_group_size=5)
    return file.getvalue()


def word2vec_bytes(binary):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v")
        write_word2vec(str(path), ["the", "cat", "häuser"], np.eye(3, 4), binary=binary)
        return path.read_bytes()


def csv_bytes():
    return ("id,text\n" + "".join(f'{i},"{t.replace(chr(34), chr(34) * 2)}"\n' for i, t in enumerate(LINES))).encode()


def text_reader(**options):
    def read(path):
        return TextFiles(path, block_bytes=64, max_document_bytes=1 << 16, **options).hash_ngrams().compute()

    return read


def store_reader(build, **options):
    numbers = itertools.count()

    def read(path):
        return build(path, f"memory://fuzz-{build.__name__}-{next(numbers)}-{path}", **options)

    return read


JSONL = "".join(json.dumps({"text": t, "label": "ab"[i % 2]}) + "\n" for i, t in enumerate(LINES)).encode()
SVM = b"0,1 1:0.5 3:2e1\n1 2:1 # remark\n 1:3\n2 qid:3 1:1\n"
PLAIN = "\n".join(LINES).encode()
TSV = b"id\ttext\n" + b"".join(b"1\t%b\n" % line.encode() for line in LINES)
EXTREME = b"3 5 4\n0,1 1:0.5 3:2\n1 2:1\n 1:3\n"
RECORDS = b"text\tlabel\nthe cat\ta\na dog\tb\n"
CONLL = b"# id\nthe\tD\ncat\tN\n\nsat\tV\n"
BROWN = b"0\tthe\t5\n10\tcat\t2\n11\tdog\t1\n"
svm, extreme = (store_reader(build_labeled_store, format=name) for name in ("svmlight", "extreme"))
corpus = store_reader(build_corpus, field="text", tokens="words", lowercase=True)
fields = text_reader(field="text")


def records(path):
    return list(read_labeled_records(path, text="text", label="label"))


FORMATS = {
    "txt": ("a.txt", lambda: PLAIN, text_reader()),
    "txt file": ("a.txt", lambda: PLAIN, text_reader(unit="file")),
    "txt replaced": ("a.txt", lambda: PLAIN, text_reader(errors="replace", long_documents="truncate")),
    "utf-16": ("a.txt", lambda: PLAIN.decode().encode("utf-16"), text_reader(encoding="utf-16")),
    "shift_jis": ("a.txt", lambda: "日本\nok".encode("shift_jis"), text_reader(encoding="shift_jis")),
    "jsonl": ("a.jsonl", lambda: JSONL, fields),
    "csv": ("a.csv", csv_bytes, fields),
    "tsv": ("a.tsv", lambda: TSV, fields),
    "parquet": ("a.parquet", parquet_bytes, fields),
    "gz": ("a.txt.gz", lambda: gzip.compress(PLAIN), text_reader()),
    "bz2": ("a.txt.bz2", lambda: bz2.compress(PLAIN), text_reader()),
    "zst": ("a.txt.zst", lambda: zstandard.compress(PLAIN), text_reader()),
    "csv.gz": ("a.csv.gz", lambda: gzip.compress(csv_bytes()), fields),
    "store": ("a.txt", lambda: PLAIN, store_reader(build_store)),
    "corpus": ("a.jsonl", lambda: JSONL, corpus),
    "svmlight": ("a.svm", lambda: SVM, svm),
    "svmlight.gz": ("a.svm.gz", lambda: gzip.compress(SVM), svm),
    "extreme": ("a.txt", lambda: EXTREME, extreme),
    "word2vec text": ("a.vec", lambda: word2vec_bytes(binary=False), read_word2vec),
    "word2vec binary": ("a.bin", lambda: word2vec_bytes(binary=True), read_word2vec),
    "word2vec.gz": ("a.vec.gz", lambda: gzip.compress(word2vec_bytes(binary=False)), read_word2vec),
    "conll": ("a.conll", lambda: CONLL, read_conll),
    "conll.gz": ("a.conll.gz", lambda: gzip.compress(CONLL), read_conll),
    "brown": ("a.paths", lambda: BROWN, read_brown_paths),
    "records jsonl": ("a.jsonl", lambda: JSONL, records),
    "records tsv": ("a.tsv", lambda: RECORDS, records),
    "records gz": ("a.jsonl.gz", lambda: gzip.compress(JSONL), records),
}
PIECES = [
    b"\n", b"\0", b'"', b"\t", b":", b"99999999999999999999", b"-1", b"nan", b"1e999", b"\xff\xfe", b"\xef\xbb\xbf",
    b"<", b"\r\n\r\n", b" ", b"inf", b",", b"[" * 100,
]  # fmt: skip


def mutated(rng, good):
    """A good file with some of its bytes changed, or random bytes."""
    kind = rng.integers(10)
    if kind == 0:
        return bytes(rng.integers(256, size=rng.integers(400), dtype=np.uint8))
    if kind == 1:
        letters = np.frombuffer(b"0123456789 \t\n\r:,;.\"'{}[]<>/&#-+eE\\\0\xff\xc3", dtype=np.uint8)
        return bytes(rng.choice(letters, size=rng.integers(300)))
    if kind == 2:
        return good[: rng.integers(len(good) + 1)]
    if kind == 3:
        return good * 2
    data = bytearray(good)
    for _ in range(1 << rng.integers(5)):
        if data:
            change(rng, data)
    return bytes(data)


def change(rng, data):
    """Change a byte, take some away or put some in."""
    at, act = int(rng.integers(len(data))), rng.integers(5)
    if act == 0:
        data[at] = rng.integers(256)
    elif act == 1:
        data[at] ^= 1 << rng.integers(8)
    elif act == 2:
        del data[at : at + 1 + int(rng.integers(8))]
    elif act == 3:
        data[at:at] = bytes(rng.integers(256, size=rng.integers(1, 6), dtype=np.uint8))
    else:
        data[at:at] = PIECES[rng.integers(len(PIECES))]


BOMB_BYTES = {".gz": 24 << 20, ".zst": 96 << 20}
"""Of a .zst file little is read at once, which may stand for some MiB."""
LIMIT = 1 << 18


@pytest.mark.parametrize("name", FORMATS)
def test_a_reader_ends_in_a_result_or_a_sentence_that_names_the_file(name, tmp_path):
    file, good, read = FORMATS[name]
    content = good()
    whole = tmp_path / "whole" / file
    whole.parent.mkdir(parents=True)
    whole.write_bytes(content)
    assert read(str(whole)) is not None
    for seed in range(3):
        path = tmp_path / str(seed) / file
        path.parent.mkdir(parents=True)
        path.write_bytes(mutated(np.random.default_rng([seed, len(name)]), content))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actual = outcome(lambda path=path: read(str(path)), allowed=(ValueError, OSError))
        assert actual.fault is None
        assert actual.error is None or str(tmp_path) in str(actual.error)


def blocks(**options):
    return lambda path: TextFiles(path, max_document_bytes=LIMIT, **options).n_documents


BOMBS = {
    "line": ("a.txt", b"", b"x", blocks()),
    "file": ("a.txt", b"", b"x\n", blocks(unit="file")),
    "wide": ("a.txt", b"", b"x\0", blocks(encoding="utf-16-le")),
    "json": ("a.jsonl", b"", b"[", blocks(field="text")),
    "quote": ("a.csv", b"", b'"text\n', blocks(field="text")),
    "header": ("a.tsv", b"", b"x\t", blocks(field="text")),
    "svmlight": (
        "a.svm",
        b"",
        b"1",
        lambda path: build_labeled_store(path, f"memory://{path}", format="svmlight"),
    ),
    "word2vec head": ("a.vec", b"", b"1", read_word2vec),
    "word2vec": ("a.bin", b"2 3\n", b"x", read_word2vec),
    "conll": ("a.conll", b"", b"x", read_conll),
    "brown": ("a.paths", b"", b"0", read_brown_paths),
    "records": ("a.jsonl", b"", b"[", lambda path: list(read_labeled_records(path, text="a", label="b"))),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("ending", BOMB_BYTES)
def test_a_bomb_is_refused_within_a_bound_of_memory(kind, ending, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "RECORD_BYTES", LIMIT)
    monkeypatch.setattr(lines.read_line_chunks, "__kwdefaults__", short_lines())
    monkeypatch.setattr(sources, "HEADER_SIZE_LIMIT", sources.HEADER_SIZE_LIMIT._replace(n_bytes=LIMIT))
    monkeypatch.setattr(word2vec, "MAX_WORD_BYTES", LIMIT)
    file, head, part, read = BOMBS[kind]
    path = tmp_path / f"{file}{ending}"
    compress = {".gz": gzip.compress, ".zst": zstandard.compress}[ending]
    path.write_bytes(compress(head + part * (BOMB_BYTES[ending] // len(part))))
    tracemalloc.start()
    with pytest.raises(ValueError, match=path.name):
        read(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BOMB_BYTES[ending] / 2


def short_lines():
    """Defaults of ``read_line_chunks`` with a longest line that a small bomb goes beyond."""
    defaults = lines.read_line_chunks.__kwdefaults__
    return {**defaults, "size_limit": defaults["size_limit"]._replace(n_bytes=LIMIT)}
