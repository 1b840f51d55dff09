"""word2vec's text and binary formats."""

from collections.abc import Sequence
from typing import Any

import fsspec
import numpy as np
from numpy.typing import NDArray

from dspectral.types import Documents


def read_word2vec(
    path: str, *, binary: bool | None = None, storage_options: dict[str, object] | None = None
) -> tuple[Documents, NDArray[np.float32]]:
    r"""Read word vectors.

    Parameters
    ----------
    path : str
        Local path or any fsspec URL, also .gz or .bz2.
    binary : bool, optional
        By default what the file's name says: binary if it ends in .bin, before a compression's ending.
    storage_options : dict, optional

    Returns
    -------
    words : Documents
        Distinct words; of a word that is there twice the first counts.
    vectors : ndarray of float32, shape (n_words, n_dimensions)

    Raises
    ------
    ValueError
        If the first line is not "words dimensions", or the file ends early; the line is named.

    Examples
    --------
    >>> with fsspec.open("memory://two.txt", "w") as file:
    ...     _ = file.write("2 3\nyes 1 0 0\nno 0 1 0\n")
    >>> words, vectors = read_word2vec("memory://two.txt")
    >>> words.text(1), vectors.shape
    (b'no', (2, 3))
    """
    if binary is None:
        binary = _is_binary(path)
    with fsspec.open(path, "rb", compression="infer", **(storage_options or {})) as file:
        head = file.readline().split()
        if len(head) != 2 or not all(part.isdigit() for part in head):
            raise ValueError(
                f"{path}: the first line must be the numbers of words and of dimensions, not {head}"
            )
        n_words, n_dimensions = map(int, head)
        read = _read_binary if binary else _read_text
        words, vectors = read(file, path, n_words, n_dimensions)
    kept = list({word: i for i, word in reversed(list(enumerate(words)))}.values())[::-1]
    return Documents.of([words[i] for i in kept]), vectors[kept]


def write_word2vec(
    path: str,
    words: Sequence[str],
    vectors: NDArray[Any],
    *,
    binary: bool | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    r"""Write word vectors, as gensim's ``KeyedVectors`` and word2vec's own tools read them.

    Parameters
    ----------
    path : str
        Local path or any fsspec URL, also .gz or .bz2.
    words : sequence of str
        Distinct, without blanks.
    vectors : ndarray, shape (n_words, n_dimensions)
        Written in single precision; in text with as many digits as bring the same numbers back.
    binary : bool, optional
        By default what the file's name says: binary if it ends in .bin, before a compression's ending.
    storage_options : dict, optional

    Raises
    ------
    ValueError
        If the words are not as many as the vectors, or one is empty, has a blank, or is there twice.

    Examples
    --------
    >>> write_word2vec("memory://one.bin", ["yes"], np.ones((1, 2)))
    >>> read_word2vec("memory://one.bin")[1]
    array([[1., 1.]], dtype=float32)
    """
    vectors = np.asarray(vectors, dtype="<f4")
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(f"there are {len(words)} words, but vectors of shape {vectors.shape}")
    seen = set()
    for word in words:
        if word in seen or len(word.split()) != 1 or word != word.strip():
            raise ValueError(f"{word!r} cannot be written: words must be distinct, and without blanks")
        seen.add(word)
    binary = _is_binary(path) if binary is None else binary
    with fsspec.open(path, "wb", compression="infer", **(storage_options or {})) as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            numbers = vector.tobytes() if binary else " ".join(map(str, vector)).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


def _is_binary(path: str) -> bool:
    return path.removesuffix(".gz").removesuffix(".bz2").endswith(".bin")


def _read_text(
    file: object, path: str, n_words: int, n_dimensions: int
) -> tuple[list[bytes], NDArray[np.float32]]:
    words, vectors = [], np.empty((n_words, n_dimensions), dtype=np.float32)
    for i in range(n_words):
        fields = file.readline().rstrip().rsplit(b" ", n_dimensions)  # type: ignore[attr-defined]
        if len(fields) != n_dimensions + 1:
            raise ValueError(f"{path}, line {i + 2}: expected a word and {n_dimensions} numbers")
        words.append(fields[0])
        vectors[i] = [float(field) for field in fields[1:]]
    return words, vectors


def _read_binary(
    file: object, path: str, n_words: int, n_dimensions: int
) -> tuple[list[bytes], NDArray[np.float32]]:
    words, vectors = [], np.empty((n_words, n_dimensions), dtype=np.float32)
    for i in range(n_words):
        word = bytearray()
        while (byte := file.read(1)) != b" ":  # type: ignore[attr-defined]
            if not byte:
                raise ValueError(f"{path} ends in word {i + 1} of {n_words}")
            word += byte
        words.append(bytes(word).lstrip(b"\n"))
        data = file.read(4 * n_dimensions)  # type: ignore[attr-defined]
        if len(data) != 4 * n_dimensions:
            raise ValueError(f"{path} ends in the vector of word {i + 1} of {n_words}")
        vectors[i] = np.frombuffer(data, dtype="<f4")
    return words, vectors
