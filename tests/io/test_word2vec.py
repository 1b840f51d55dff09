"""Word vectors in word2vec's formats."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from dspectral import read_word2vec, write_word2vec
from dspectral.io import write_brown_paths, write_labeled_text

WORDS = ["a", "\u00e9t\u00e9", "<?>"]


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "v.txt.gz", "v.bin.bz2"])
def test_what_is_read_is_what_was_written_and_can_be_written_again(name, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    write_word2vec(str(tmp_path / name), WORDS, vectors)
    write_word2vec(str(tmp_path / f"again-{name}"), *read_word2vec(str(tmp_path / name)))
    actual, read = read_word2vec(str(tmp_path / f"again-{name}"))
    assert actual == WORDS
    np.testing.assert_array_equal(read, vectors)
    assert read.dtype == np.float32


def test_vectors_that_are_longer_than_what_is_read_at_once_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr("dspectral.io.word2vec.READ_BYTES", 7)
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_word2vec(str(tmp_path / "v.bin"), WORDS, vectors)
    actual, read = read_word2vec(str(tmp_path / "v.bin"))
    assert actual == WORDS
    np.testing.assert_array_equal(read, vectors)


def test_of_a_word_that_is_there_twice_the_first_counts(tmp_path):
    (tmp_path / "v.txt").write_text("4 1\na 1\nb 2\na 3\nc 4\n")
    with pytest.warns(UserWarning, match=r"v\.txt.*1 word"):
        words, vectors = read_word2vec(str(tmp_path / "v.txt"))
    assert words == ["a", "b", "c"]
    assert vectors.ravel().tolist() == [1, 2, 4]


@pytest.mark.parametrize("words", [["a", "a"], ["a", ""], ["a", "b c"], ["a"], ["a", " b"]])
def test_words_that_would_not_come_back_are_refused(words, tmp_path):
    with pytest.raises(ValueError, match="words"):
        write_word2vec(str(tmp_path / "v.txt"), words, np.ones((2, 3)))


def test_a_word_that_is_not_utf8_is_named_or_replaced(tmp_path):
    path = str(tmp_path / "v.txt")
    (tmp_path / "v.txt").write_bytes(b"2 1\na 1\ncaf\xe9 2\n")
    with pytest.raises(ValueError, match=r"v\.txt, word 2.*b'caf\\xe9'.*UTF-8"):
        read_word2vec(path)
    assert read_word2vec(path, errors="replace")[0] == ["a", "caf\ufffd"]
    with pytest.raises(ValueError, match=r"errors.*'ignore'"):
        read_word2vec(path, errors="ignore")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("v.txt", b"1 2\na nan 1\n", "'a'.*finite"),
        ("v.txt", b"1 2\na 1e39 1\n", "'a'.*finite"),
        ("v.txt", b"2 2\na 1 2\nb 1\n", "line 3.*2 numbers"),
        ("v.txt", b"2 2\na 1 2\n", "line 3.*2 numbers"),
        ("v.bin", b"2 1\na \0\0\0\0\nb", "word 2"),
        ("v.bin", b"2 1\na \0\0\0\0\nb \0\0\0", "vector of word 2"),
        ("v.txt", b"2 1\na 1\nb 0.12", "line 3"),
        ("v.txt", b"2 1\na 1\nb 2\nc 3\n", "2 words"),
        ("v.bin", b"1 1\na \0\0\0\0\nb \0\0\0\0", "1 words"),
        ("v.txt.gz", gzip.compress(b"2 1\na 1\nb 2\n", mtime=0)[:-4], r"v\.txt\.gz"),
    ],
)
def test_a_file_that_is_damaged_is_named(name, content, sentence, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_word2vec(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("v.txt", lambda path, word: write_word2vec(path, [word], np.ones((1, 2)))),
        ("p.gz", lambda path, word: write_brown_paths(path, ["1"], [word], [1])),
        ("l.svm", lambda path, word: write_labeled_text(np.ones((1, 2)), path, np.ones((1, 1)))),
    ],
)
def test_a_write_that_fails_leaves_the_file_that_was_there(name, write, tmp_path, monkeypatch):
    path = str(tmp_path / name)
    write(path, "old")
    before = (tmp_path / name).read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        write(path, "new")
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("head", ["", "3 2\n", "3\t2\n"])
def test_vectors_with_and_without_a_first_line_are_read(tmp_path, head, end, monkeypatch):
    monkeypatch.setattr("dspectral.io.word2vec._INITIAL_WORDS", 1)
    lines = f"{head}the 0.5 -1e-2\n. . 1 2\n7\t3\t4 \n"
    (tmp_path / "v.txt").write_bytes(lines.replace("\n", end).encode() + b"\n" * (not head))
    words, vectors = read_word2vec(str(tmp_path / "v.txt"))
    assert words == ["the", ". .", "7"]
    np.testing.assert_allclose(vectors, [[0.5, -0.01], [1, 2], [3, 4]])
