"""Read and write word vectors in the text and binary formats of word2vec."""

from collections.abc import Iterator, Sequence
from itertools import chain
from os import PathLike
from typing import IO, Any, Literal, TypeAlias
from warnings import warn

import numpy as np

from dspectral.io.line_files import open_atomic
from dspectral.parameters import check_option
from dspectral.paths import expand_path
from dspectral.store.from_text.lines import read_line_chunks
from dspectral.store.from_text.sources import get_format
from dspectral.store.from_text.streams import open_decompressed
from dspectral.store.location import ERRORS
from dspectral.types import FloatArray, Floats

Entry: TypeAlias = tuple[bytes, Floats | list[float]]
READ_BYTES = 1 << 20
"""Bytes per read of a binary file."""
_INITIAL_WORDS = 1 << 12
MAX_HEADER_BYTES, MAX_WORD_BYTES = 1 << 10, 1 << 20
"""Maximum bytes of the header and of a word."""


def read_word2vec(
    path: str | PathLike[str],
    *,
    binary: bool | None = None,
    errors: Literal["strict", "replace"] = "strict",
    storage_options: dict[str, Any] | None = None,
) -> tuple[list[str], Floats]:
    r"""Read word vectors in the formats of word2vec, or of GloVe, which has no header.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2.
    binary : bool, optional
        Whether the format is binary; by default if the path ends in .bin.
    errors : {"strict", "replace"}, default="strict"
        Whether a word that is not UTF-8 raises an error, or its invalid bytes become U+FFFD. Files of the original
        word2vec tool may have such words.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    words : list of str
        Distinct words, in file order; only the first occurrence of a word is used.
    vectors : ndarray of float32, shape (n_words, n_dimensions)
        Vector of each word.

    Raises
    ------
    ValueError
        If the first line is neither "words dimensions" nor a word and its numbers, a word is not UTF-8, a vector is
        invalid, or the file is truncated or too long; the message names the line or the word.

    Notes
    -----
    Memory: ``4 * n_words * n_dimensions`` bytes and 140 bytes per word, 3.8 GB for three million words of 300.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two.txt", "w") as file:
    ...     _ = file.write("2 3\nyes 1 0 0\nno 0 1 0\n")
    >>> words, vectors = read_word2vec("memory://two.txt")
    >>> words, vectors.shape
    (['yes', 'no'], (2, 3))
    """
    check_option("errors", errors, ERRORS)
    path = expand_path(path)
    compression, options = get_format(path)[1], storage_options or {}
    binary = _is_binary(path) if binary is None else binary
    with open_decompressed(path, compression, options) as file:
        chunks = iter(()) if binary else read_line_chunks(file, path)
        lines: Iterator[bytes] = (line for chunk in chunks for line in chunk.data.splitlines(keepends=True))
        first = file.readline(MAX_HEADER_BYTES) if binary else next(lines, b"")
        head, n_words = first.split(), 0
        if _is_header(head):
            n_words, n_dimensions = map(int, head)
        elif not binary and len(head) > 2 and _parse_numbers(head[1:]) is not None:
            n_dimensions, lines = len(head) - 1, chain([first], lines)
        else:
            raise ValueError(
                f"{path}: the first line is {head!r:.60}, but must be the numbers of words and dimensions, or a word "
                "and its vector: check binary="
            )
        n_known = n_words if len(head) == 2 else None
        if binary:
            entries = _read_binary(file, path, n_words, n_dimensions)
        else:
            entries = _read_text(lines, path, n_known, n_dimensions)
        words, vectors, n_read = _collect_vectors(entries, path, n_known, n_dimensions, errors)
    if n_read > len(words):
        warn(f"{path}: {n_read - len(words)} word(s) are repeated; only the first of each is used", stacklevel=2)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ValueError(f"{path}: the vector of {words[bad[0]]!r:.60} must be finite and at most 3.4e38")
    return words, vectors


def write_word2vec(
    path: str | PathLike[str],
    words: Sequence[str],
    vectors: FloatArray,
    *,
    binary: bool | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    r"""Write word vectors in the formats of word2vec, which gensim's ``KeyedVectors`` reads.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2.
    words : sequence of str
        Distinct words, without white space.
    vectors : ndarray, shape (n_words, n_dimensions)
        Vector of each word, written as float32.
    binary : bool, optional
        Whether the format is binary; by default if the path ends in .bin.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If the numbers of words and vectors differ, or a word is empty, has white space or is repeated.

    Examples
    --------
    >>> write_word2vec("memory://one.bin", ["yes"], np.ones((1, 2)))
    >>> read_word2vec("memory://one.bin")
    (['yes'], array([[1., 1.]], dtype=float32))
    """
    # The binary format is little-endian on every machine.
    path, vectors = expand_path(path), np.asarray(vectors, dtype="<f4")
    if isinstance(words, str):
        raise TypeError(f"words={words!r:.60} must be a list of strings")
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(f"vectors has shape {vectors.shape}, but must have {len(words)} rows, as many as words")
    # A word with a space would be read as a word and a number.
    written_words = set()
    for word in words:
        if word in written_words or len(word.split()) != 1 or word != word.strip():
            raise ValueError(f"word {word!r} cannot be written: words must be distinct and without white space")
        written_words.add(word)
    binary = _is_binary(path) if binary is None else binary
    with open_atomic(path, "wb", **(storage_options or {})) as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            numbers = vector.tobytes() if binary else " ".join(map(str, vector)).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


def _collect_vectors(
    entries: Iterator[Entry], path: str, n_known: int | None, n_dimensions: int, errors: str
) -> tuple[list[str], Floats, int]:
    """Return distinct words, the first vector of each (n_words, n_dimensions), and the number of entries."""
    try:
        vectors = np.empty((_INITIAL_WORDS if n_known is None else n_known, n_dimensions), dtype=np.float32)
    except (ValueError, MemoryError) as error:
        raise ValueError(
            f"{path}: the header declares {n_known} words of {n_dimensions} dimensions, which must fit in memory"
        ) from error
    words: dict[str, None] = {}
    n_read = 0
    # The next row is overwritten until it belongs to a new word, so repeated words need no copy.
    for n_read, (word_bytes, vector) in enumerate(entries, start=1):
        word = _decode(word_bytes, path, n_read, errors)
        if word not in words:
            if len(words) == len(vectors):  # without a header the array grows
                vectors.resize((2 * len(vectors), n_dimensions), refcheck=False)
            with np.errstate(over="ignore"):  # the caller checks for overflow
                vectors[len(words)] = vector
            words[word] = None
    vectors.resize((len(words), n_dimensions), refcheck=False)
    return list(words), vectors, n_read


def _is_binary(path: str) -> bool:
    return path.removesuffix(".gz").removesuffix(".bz2").endswith(".bin")


def _decode(word_bytes: bytes, path: str, word_number: int, errors: str) -> str:
    try:
        return word_bytes.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, word {word_number}: {word_bytes!r:.60} is not UTF-8 ({error.reason}): use errors='replace'"
        ) from error


def _is_header(fields: list[bytes]) -> bool:
    """Return whether the fields are the numbers of words and dimensions."""
    return len(fields) == 2 and all(part.isdigit() and len(part) < 20 for part in fields)


def _parse_numbers(fields: list[bytes]) -> list[float] | None:
    """Return the fields as numbers, or None if one is not a number."""
    try:
        return [float(field) for field in fields]
    except ValueError:
        return None


def _read_text(lines: Iterator[bytes], path: str, n_words: int | None, n_dimensions: int) -> Iterator[Entry]:
    """Yield the word and vector of ``n_words`` lines, or of all lines if it is None."""
    # `number` is the current line number, `n_read` the number of vectors.
    number, n_read = (0 if n_words is None else 1), 0
    while n_words is None or n_read < n_words:
        line = next(lines, b"")
        number, n_read = number + 1, n_read + 1
        if n_words is None and not line:
            return
        if n_words is None and not line.strip():
            continue
        # Split from the right: words written by other tools may have spaces.
        word, *fields = line.rstrip().rsplit(b" ", n_dimensions)
        if len(fields) != n_dimensions:
            word, *fields = line.rstrip().rsplit(None, n_dimensions) or [b""]
        vector = _parse_numbers(fields)
        if vector is None or len(vector) != n_dimensions:
            raise ValueError(f"{path}, line {number} must be a word and {n_dimensions} numbers")
        if not line.endswith(b"\n"):  # the last number may be truncated
            raise ValueError(
                f"{path}, line {number} must end with a line break: the file may be truncated, else add it"
            )
        yield word, vector
    if any(line.strip() for line in lines):
        raise ValueError(f"{path} has more than {n_words} words, the number in its header: correct the header")


def _read_binary(file: IO[bytes], path: str, n_words: int, n_dimensions: int) -> Iterator[Entry]:
    """Yield each word and its vector: the word, a space, and the bytes of the numbers."""
    # `data[at:]` is the unprocessed part of the buffer: at most 1 MiB and one entry.
    data, position, n_bytes = b"", 0, 4 * n_dimensions
    for i in range(n_words):
        while (blank := data.find(b" ", position)) < 0 or len(data) <= blank + n_bytes:
            chunk = file.read(READ_BYTES)
            if blank < 0 and len(data) - position > MAX_WORD_BYTES:
                raise ValueError(f"{path}: word {i + 1} must have at most {MAX_WORD_BYTES:,} bytes: check binary=")
            if not chunk:
                missing_part = "word" if blank < 0 else "the vector of word"
                raise ValueError(f"{path} is truncated in {missing_part} {i + 1} of {n_words}: copy the file again")
            data, position = data[position:] + chunk, 0
        # Some programs write a line break after each vector.
        yield data[position:blank].lstrip(b"\n"), np.frombuffer(data, "<f4", n_dimensions, blank + 1)
        position = blank + 1 + n_bytes
    rest = data[position:]
    while rest or (rest := file.read(READ_BYTES)):  # reading to EOF also verifies a compressed file
        if rest.strip():
            raise ValueError(f"{path} has more than {n_words} words, the number in its header: correct the header")
        rest = b""
