"""Text files that are not UTF-8 are named with the line that shows it; a byte order mark is no part of a word."""

import gzip

import numpy as np
import pytest

from dspectral.io import (
    read_brown_paths,
    read_conll,
    read_labelled_records,
    read_newsgroups,
    read_word2vec,
    write_word2vec,
)

FILES = {
    "a.conll": ("the\tDET\n", "caf\u00e9\tNOUN\n", read_conll),
    "a.paths": ("0\tthe\t2\n", "1\tcaf\u00e9\t1\n", read_brown_paths),
    "a.tsv": ("text\tlabel\n", "caf\u00e9\tx\n", lambda path: list(read_labelled_records(path))),
    "a.jsonl": (
        '{"text": "a", "label": "x"}\n',
        '{"text": "caf\u00e9", "label": "x"}\n',
        lambda path: list(read_labelled_records(path)),
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_in_another_encoding_is_named(tmp_path, name, ending):
    first, line, read = FILES[name]
    path = tmp_path / f"{name}{ending}"
    text = first + line * 3
    compress = gzip.compress if ending else bytes
    path.write_bytes(compress(text.encode("latin-1")))
    with pytest.raises(ValueError, match=rf"{name}{ending}, line 2: not UTF-8 \(.*\); convert the file"):
        read(str(path))
    path.write_bytes(compress(text.encode("utf-16")))
    with pytest.raises(ValueError, match=rf"{name}{ending}, line 1: not UTF-8"):
        read(str(path))
    path.write_bytes(compress(text.encode("utf-8-sig")))
    with_mark = read(str(path))
    path.write_bytes(compress(text.encode()))
    assert with_mark == read(str(path))


def test_a_truncated_file_is_named(tmp_path):
    (tmp_path / "a.conll.gz").write_bytes(gzip.compress(b"the\tDET\n" * 99)[:-9])
    with pytest.raises(ValueError, match=r"a\.conll\.gz is truncated"):
        read_conll(str(tmp_path / "a.conll.gz"))


def test_paths_are_taken_as_their_names_are(tmp_path):
    for name, (first, line, read) in FILES.items():
        (tmp_path / name).write_text(first + line, encoding="utf-8")
        assert read(tmp_path / name) == read(str(tmp_path / name))
    write_word2vec(tmp_path / "v.bin", ["a"], np.ones((1, 2)))
    assert read_word2vec(tmp_path / "v.bin")[0] == ["a"]
    (tmp_path / "posts" / "group").mkdir(parents=True)
    (tmp_path / "posts" / "group" / "1").write_text("x")
    assert list(read_newsgroups(tmp_path / "posts")) == [("x", ("group",))]
