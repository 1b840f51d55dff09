"""Random bytes, mutated files and bombs for every reader: a result or one sentence, within a bound of memory."""

import gzip
import tracemalloc
import warnings

import numpy as np
import pytest
import zstandard

from dspectral import TextFiles, read_word2vec
from dspectral.io import (
    build_labelled_store,
    labelled_documents,
    read_brown_paths,
    read_conll,
    read_labelled_records,
    read_newsgroups,
    read_reuters,
    word2vec,
)
from dspectral.store.from_text import lines, sources
from tests.bad_inputs.judging import outcome
from tests.bad_inputs.readers import FORMATS, mutated

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
            found = outcome(lambda path=path: read(str(path)), allowed=(ValueError, OSError))
        assert found.fault is None
        assert found.error is None or str(tmp_path) in str(found.error)


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
        lambda path: build_labelled_store(path, f"memory://{path}", format="svmlight"),
    ),
    "word2vec head": ("a.vec", b"", b"1", read_word2vec),
    "word2vec": ("a.bin", b"2 3\n", b"x", read_word2vec),
    "conll": ("a.conll", b"", b"x", read_conll),
    "brown": ("a.paths", b"", b"0", read_brown_paths),
    "records": ("a.jsonl", b"", b"[", lambda path: list(read_labelled_records(path, text="a", label="b"))),
}


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("ending", BOMB_BYTES)
def test_a_bomb_is_refused_within_a_bound_of_memory(kind, ending, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "RECORD_BYTES", LIMIT)
    monkeypatch.setattr(lines.whole_lines, "__kwdefaults__", short_lines())
    monkeypatch.setattr(sources, "LONGEST_HEADER", sources.LONGEST_HEADER._replace(n_bytes=LIMIT))
    monkeypatch.setattr(word2vec, "LONGEST_WORD", LIMIT)
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
    """Defaults of ``whole_lines`` with a longest line that a small bomb goes beyond."""
    defaults = lines.whole_lines.__kwdefaults__
    return {**defaults, "longest": defaults["longest"]._replace(n_bytes=LIMIT)}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("group/post", lambda folder: list(read_newsgroups(str(folder)))),
        ("reut2-000.sgm", lambda folder: list(read_reuters(str(folder), "train"))),
    ],
)
def test_posts_and_articles_have_a_longest_file(name, read, tmp_path, monkeypatch):
    monkeypatch.setattr(labelled_documents, "LONGEST_FILE", 1000)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"<REUTERS>" * 1000)
    with pytest.raises(ValueError, match=f"{name}: a file of more than 1,000 bytes"):
        read(tmp_path)
