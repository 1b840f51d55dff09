"""Read tagged sentences (CoNLL), and read and write the paths of Brown clusters."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import fsspec
from fsspec.utils import infer_compression

from dspectral.parameters import check_integer
from dspectral.paths import expand_path, name_file_in_errors
from dspectral.store.from_text.readers import iter_numbered_lines


@contextmanager
def open_atomic(path: str | PathLike[str], mode: str, **options: Any) -> Iterator[Any]:
    """Open a file for writing, compressed by its extension; local files are renamed into place when complete."""
    url = expand_path(path)
    is_local = "://" not in url and "::" not in url and (Path(url).is_file() or not Path(url).exists())
    temporary = f"{url}.{uuid4().hex}.partial" if is_local else url
    try:
        with (
            name_file_in_errors(url),
            fsspec.open(temporary, mode, **options, compression=infer_compression(url)) as file,
        ):
            yield file
        if is_local:
            Path(temporary).replace(url)
    finally:
        if is_local:
            Path(temporary).unlink(missing_ok=True)


class TaggedSentences(NamedTuple):
    """Sentences of words with tags.

    Attributes
    ----------
    words : list of list of str
        Words of each sentence.
    tags : list of list of str
        Tags of the words.
    """

    words: list[list[str]]
    tags: list[list[str]]


def read_conll(
    path: str | PathLike[str],
    *,
    word_column: int = 1,
    tag_column: int = 2,
    storage_options: dict[str, Any] | None = None,
) -> TaggedSentences:
    r"""Read words and tags from two tab-separated columns; empty lines end sentences.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2; UTF-8.
    word_column, tag_column : int, default=1 and 2
        Numbers of the columns, from 1; 2 and 4 in files of Universal Dependencies. Comments (lines that start with
        ``#`` and have no tab) are skipped. If the first column is not selected and numbers the tokens, multiword tokens
        (``1-2``) and empty tokens (``2.1``) are skipped too.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    TaggedSentences
        Words and tags, in file order.

    Raises
    ------
    ValueError
        If a line has too few columns, an empty word or tag, or is not UTF-8 (the message names it), the word column
        holds the token numbers of Universal Dependencies, or there is no sentence.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two.conll", "w") as file:
    ...     _ = file.write("the\tDET\ncat\tNOUN\n\nyes\tX\n")
    >>> read_conll("memory://two.conll")
    TaggedSentences(words=[['the', 'cat'], ['yes']], tags=[['DET', 'NOUN'], ['X']])
    """
    for name, column in (("word_column", word_column), ("tag_column", tag_column)):
        if check_integer(name, column) < 1:
            raise ValueError(f"{name}={column} must be at least 1: columns start at 1")
    min_columns, width = max(word_column, tag_column), 0
    sentences = TaggedSentences([], [])
    rows: list[list[str]] = []
    # `rows` are the lines of the current sentence, which an empty line or EOF ends.
    for number, line in chain(iter_numbered_lines(path, storage_options), [(0, "")]):
        fields = line.split("\t")
        if len(fields) == 1 and not fields[0].strip():
            # Ranges and empty tokens are dropped.
            keeps_all = 1 in (word_column, tag_column) or not _is_numbered(rows)
            word_rows = rows if keeps_all else [row for row in rows if row[0].isdigit()]
            if width == _UD_COLUMNS and word_column == 1 and len(rows) > 1 and _is_numbered(rows):
                raise ValueError(
                    f"word_column=1 of {path} has token numbers, as in Universal Dependencies, but must have words: "
                    "use word_column=2, and tag_column=4 or 5"
                )
            if word_rows:
                sentences.words.append([row[word_column - 1] for row in word_rows])
                sentences.tags.append([row[tag_column - 1] for row in word_rows])
            rows = []
        elif len(fields) >= min_columns and fields[word_column - 1] and fields[tag_column - 1]:
            rows.append(fields)
            width = len(fields)
        elif len(fields) > 1 or not line.startswith("#"):
            raise ValueError(
                f"{path}, line {number} is {line!r:.60} of {len(fields)} column(s) between tabs, but must have "
                f"{min_columns} columns, with a word in column {word_column} and a tag in column {tag_column}"
            )
    if not sentences.words:
        raise ValueError(f"{path} has no sentences, but must have at least one")
    return sentences


_UD_COLUMNS = 10
"""Number of columns in files of Universal Dependencies."""


def _is_numbered(rows: list[list[str]]) -> bool:
    """Return whether column 1 of a sentence numbers its tokens, with ranges (``1-2``) and empty tokens (``2.1``)."""
    return all(re.fullmatch(r"[0-9]+([-.][0-9]+)?", row[0]) for row in rows)


def write_brown_paths(
    path: str | PathLike[str],
    codes: Sequence[str],
    words: Sequence[str],
    counts: Iterable[int],
    *,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write tab-separated bit strings, words and counts, sorted by bit string and descending count.

    Parameters
    ----------
    path : str or path-like
        Local path or fsspec URL; compressed by an extension such as .gz.
    codes : sequence of str
        Bit string of each word: the path from the root of the tree to its cluster.
    words : sequence of str
        Words, without tabs and line breaks.
    counts : iterable of int
        Count of each word.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If a word has a tab or a line break, or the arguments differ in length.

    Examples
    --------
    >>> write_brown_paths("memory://paths", ["1", "0"], ["cat", "a"], [2, 5])
    >>> read_brown_paths("memory://paths")
    [('0', 'a', 5), ('1', 'cat', 2)]
    """
    lines = sorted(zip(codes, words, map(int, counts), strict=True), key=lambda line: (line[0], -line[2], line[1]))
    for _, word, _ in lines:
        if any(blank in word for blank in "\t\n\r"):
            raise ValueError(
                f"the word {word!r} has a tab or a line break, which a paths file cannot contain: replace it"
            )
    with open_atomic(path, "wt", encoding="utf-8", newline="\n", **(storage_options or {})) as file:
        file.writelines(f"{code}\t{word}\t{count}\n" for code, word, count in lines)


def read_brown_paths(
    path: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> list[tuple[str, str, int]]:
    """Read the bit strings, words and counts of a paths file.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2; UTF-8.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    list of (str, str, int)
        Bit string, word and count of each line, in file order.

    Raises
    ------
    ValueError
        If a line is not a bit string, a word and a count in UTF-8 (the message names it), a bit string is a prefix of
        another one, or a word is repeated.

    Examples
    --------
    >>> with fsspec.open("memory://one-path", "w") as file:
    ...     _ = file.write("0110 cat 7".replace(" ", chr(9)))
    >>> read_brown_paths("memory://one-path")
    [('0110', 'cat', 7)]
    """
    lines = []
    for number, line in iter_numbered_lines(path, storage_options):
        fields = line.split("\t")
        # The bit string is empty if there is only one cluster.
        if len(fields) != 3 or set(fields[0]) - set("01") or not fields[2].isdecimal():
            raise ValueError(
                f"{path}, line {number} is {line!r:.60}, but must be a bit string, a word and a count between tabs"
            )
        lines.append((fields[0], fields[1], int(fields[2])))
    # In sorted order a code directly precedes the codes that it is a prefix of.
    codes = sorted({code for code, _, _ in lines})
    for code, longer in pairwise(codes):
        if longer.startswith(code):
            raise ValueError(f"{path}: bit string {code!r} is a prefix of {longer!r}, but clusters must be leaves")
    words = sorted(word for _, word, _ in lines)
    if repeated := [word for word, after in pairwise(words) if word == after]:
        raise ValueError(f"{path}: the word {repeated[0]!r:.60} occurs twice, but must have one cluster")
    return lines
