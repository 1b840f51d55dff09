"""Text and binary formats of word2vec."""

from collections.abc import Iterator, Sequence
from itertools import chain
from os import PathLike
from typing import IO, Any, Literal, TypeAlias
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from dspectral.io.line_files import written_whole
from dspectral.paths import expand_path
from dspectral.store.from_text.lines import whole_lines
from dspectral.store.from_text.sources import format_of
from dspectral.store.from_text.streams import open_bytes
from dspectral.store.location import ERRORS, check_name
from dspectral.types import FloatArray

Entry: TypeAlias = tuple[bytes, NDArray[np.float32] | list[float]]
READ_BYTES = 1 << 20
"""Bytes of a binary file that are read at once."""
_SOME_WORDS = 1 << 12
LONGEST_HEAD, LONGEST_WORD = 1 << 10, 1 << 20
"""Most bytes of the first line, and of a word."""


def read_word2vec(
    path: str | PathLike[str],
    *,
    binary: bool | None = None,
    errors: Literal["strict", "replace"] = "strict",
    storage_options: dict[str, Any] | None = None,
) -> tuple[list[str], NDArray[np.float32]]:
    r"""Read word vectors in the formats of word2vec, or of GloVe, whose files have no first line of counts.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2.
    binary : bool, optional
        Whether the format is the binary one; by default if the file's name ends in .bin, unless the first vector shows
        that it is not, or is.
    errors : {"strict", "replace"}, default="strict"
        Whether a word that is not UTF-8, as in files of word2vec's own tool, is an error, or its bytes become U+FFFD.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    words : list of str
        Distinct words, in the order of the file; only the first occurrence of a word counts.
    vectors : ndarray of float32, shape (n_words, n_dimensions)
        Vector of each word.

    Raises
    ------
    ValueError
        If the first line is neither "words dimensions" nor a word and its numbers, a word is not UTF-8, a vector is not
        of numbers, or the file ends early or goes on; the line or the word is named.

    Notes
    -----
    Memory: ``4 * n_words * n_dimensions`` bytes, and 140 for each word: 3.8 GB for three million words of 300.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two.txt", "w") as file:
    ...     _ = file.write("2 3\nyes 1 0 0\nno 0 1 0\n")
    >>> words, vectors = read_word2vec("memory://two.txt")
    >>> words, vectors.shape
    (['yes', 'no'], (2, 3))
    """
    check_name("errors", errors, ERRORS)
    path = expand_path(path)
    compression, options = format_of(path)[1], storage_options or {}
    binary = _has_binary_vectors(path, compression, options) if binary is None else binary
    with open_bytes(path, compression, options) as file:
        lines = iter(()) if binary else _read_lines(file, path)
        first = file.readline(LONGEST_HEAD) if binary else next(lines, b"")
        head, n_words = first.split(), 0
        if _is_header(head):
            n_words, n_dimensions = map(int, head)
        elif not binary and len(head) > 2 and _parse_numbers(head[1:]) is not None:
            n_dimensions, lines = len(head) - 1, chain([first], lines)
        else:
            raise ValueError(
                f"{path}: the first line must be the numbers of words and of dimensions, or a word and its numbers, "
                f"not {head!r:.60}"
            )
        n_known = n_words if len(head) == 2 else None
        entries = (
            _read_binary(file, path, n_words, n_dimensions)
            if binary
            else (_read_text(lines, path, n_known, n_dimensions))
        )
        # A vector is written where the next new word stands: a repeated word's is overwritten, and nothing is copied.
        try:
            vectors = np.empty((_SOME_WORDS if n_known is None else n_known, n_dimensions), dtype=np.float32)
        except (ValueError, MemoryError) as error:
            raise ValueError(
                f"{path}: the first line promises {n_words} words of {n_dimensions} numbers, more than memory holds"
            ) from error
        words: dict[str, None] = {}
        n_read = 0
        for i, (word_bytes, vector) in enumerate(entries):
            word, n_read = _decode(word_bytes, path, i + 1, errors), i + 1
            if word not in words:
                if len(words) == len(vectors):  # how many there are no first line has said
                    vectors.resize((2 * len(vectors), n_dimensions), refcheck=False)
                with np.errstate(over="ignore"):  # what is beyond float32 is refused at the end, by its word
                    vectors[len(words)] = vector
                words[word] = None
    if n_read > len(words):
        warn(f"{path}: {n_read - len(words)} word(s) are there again; the first of each counts", stacklevel=2)
    vectors.resize((len(words), n_dimensions), refcheck=False)
    word_list = list(words)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{path}: the vector of {word_list[bad[0]]!r:.60} has NaN, infinity or beyond 3.4e38"
        )
    return word_list, vectors


def write_word2vec(
    path: str | PathLike[str],
    words: Sequence[str],
    vectors: FloatArray,
    *,
    binary: bool | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    r"""Write word vectors, as gensim's ``KeyedVectors`` and word2vec's own tools read them.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2.
    words : sequence of str
        Distinct words, without blanks.
    vectors : ndarray, shape (n_words, n_dimensions)
        Vector of each word, written in single precision, in text with all digits.
    binary : bool, optional
        Whether the format is the binary one; by default if the file's name ends in .bin.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If the words are not as many as the vectors, or one is empty, has a blank, or is there twice.

    Examples
    --------
    >>> write_word2vec("memory://one.bin", ["yes"], np.ones((1, 2)))
    >>> read_word2vec("memory://one.bin")
    (['yes'], array([[1., 1.]], dtype=float32))
    """
    # The binary format is little-endian on every machine.
    path, vectors = expand_path(path), np.asarray(vectors, dtype="<f4")
    if isinstance(words, str):
        raise TypeError(f"words is {words!r:.60}, but it must be a list of strings")
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(f"there are {len(words)} words, but vectors of shape {vectors.shape}")
    # A word with a blank would be read as a word and a number.
    seen = set()
    for word in words:
        if word in seen or len(word.split()) != 1 or word != word.strip():
            raise ValueError(f"{word!r} cannot be written: words must be distinct, and without blanks")
        seen.add(word)
    binary = _is_binary(path) if binary is None else binary
    with written_whole(path, "wb", **(storage_options or {})) as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            numbers = vector.tobytes() if binary else " ".join(map(str, vector)).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


def _is_binary(path: str) -> bool:
    return path.removesuffix(".gz").removesuffix(".bz2").endswith(".bin")


def _decode(word_bytes: bytes, path: str, number: int, errors: str) -> str:
    try:
        return word_bytes.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, word {number}: {word_bytes!r:.60} is not UTF-8 ({error.reason}); errors='replace' reads on"
        ) from error


def _has_binary_vectors(path: str, compression: str | None, options: dict[str, Any]) -> bool:
    """Report whether vectors are binary: by the name, unless the first vector shows the other format."""
    with open_bytes(path, compression, options) as file:
        head, line = file.readline(LONGEST_HEAD).split(), file.readline(LONGEST_WORD)
    n_numbers = int(head[1]) if _is_header(head) else 0
    is_text = (
        n_numbers > 0 and line.endswith(b"\n") and _parse_numbers(line.split()[1:][-n_numbers:]) is not None
    )
    return _is_binary(path) and not is_text if b"\0" not in line else n_numbers > 0


def _is_header(head: list[bytes]) -> bool:
    """Report whether the first line is the numbers of words and of dimensions."""
    return len(head) == 2 and all(part.isdigit() and len(part) < 20 for part in head)


def _parse_numbers(fields: list[bytes]) -> list[float] | None:
    """Return the numbers that some fields are, None where one is none."""
    try:
        return [float(field) for field in fields]
    except ValueError:
        return None


def _read_lines(file: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, whatever bytes its words are."""
    for piece in whole_lines(file, path):
        yield from piece.data.splitlines(keepends=True)


def _read_text(lines: Iterator[bytes], path: str, n_words: int | None, n_dimensions: int) -> Iterator[Entry]:
    """Yield each line's word and numbers; without a number of words those of all lines."""
    # `number` is that of the line before, `n_read` how many vectors were read.
    number, n_read = (0 if n_words is None else 1), 0
    while n_words is None or n_read < n_words:
        line = next(lines, b"")
        number, n_read = number + 1, n_read + 1
        if n_words is None and not line:
            return
        if n_words is None and not line.strip():
            continue
        # From the right: words of other tools may hold blanks.
        word, *fields = line.rstrip().rsplit(b" ", n_dimensions)
        if len(fields) != n_dimensions:
            word, *fields = line.rstrip().rsplit(None, n_dimensions) or [b""]
        vector = _parse_numbers(fields)
        if vector is None or len(vector) != n_dimensions:
            raise ValueError(f"{path}, line {number}: expected a word and {n_dimensions} numbers")
        if not line.endswith(b"\n"):  # its last number may have lost digits
            raise ValueError(
                f"{path} ends in line {number} without a line end, as if it were cut: end the line"
            )
        yield word, vector
    if any(line.strip() for line in lines):
        raise ValueError(f"{path} has more than the {n_words} words that its first line promises")


def _read_binary(file: IO[bytes], path: str, n_words: int, n_dimensions: int) -> Iterator[Entry]:
    """Yield each word and its vector; what follows a word's blank are the bytes of its numbers."""
    # `data[at:]` is what was read and not yielded yet: a MiB and the rest of one word at most.
    data, at, n_bytes = b"", 0, 4 * n_dimensions
    for i in range(n_words):
        while (blank := data.find(b" ", at)) < 0 or len(data) <= blank + n_bytes:
            chunk = file.read(READ_BYTES)
            if blank < 0 and len(data) - at > LONGEST_WORD:
                raise ValueError(f"{path}: word {i + 1} has more than {LONGEST_WORD:,} bytes")
            if not chunk:
                missing_part = "word" if blank < 0 else "the vector of word"
                raise ValueError(f"{path} ends in {missing_part} {i + 1} of {n_words}")
            data, at = data[at:] + chunk, 0
        # Some programs end each vector with a line end and others do not: it is taken for no part of the next word.
        yield data[at:blank].lstrip(b"\n"), np.frombuffer(data, "<f4", n_dimensions, blank + 1)
        at = blank + 1 + n_bytes
    _refuse_more(file, data[at:], path, n_words)


def _refuse_more(file: IO[bytes], rest: bytes, path: str, n_words: int) -> None:
    """Refuse a file that goes on behind its last word; a compressed one is verified at its end."""
    while rest or (rest := file.read(READ_BYTES)):
        if rest.strip():
            raise ValueError(f"{path} has more than the {n_words} words that its first line promises")
        rest = b""
