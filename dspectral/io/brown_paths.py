"""The ``paths`` file of the usual Brown tools: bit string, word, count, with tabs between them."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

import fsspec

from dspectral.io.text_files import open_text


def write_brown_paths(
    path: str | PathLike[str],
    codes: Sequence[str],
    words: Sequence[str],
    counts: Iterable[int],
    *,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write one line a word, in the order of bit strings, the most frequent word of each first.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL; an ending such as .gz compresses.
    codes : sequence of str
        Bit string of each word: the way from the root of the tree to its cluster.
    words : sequence of str
        The words, without tabs and line breaks.
    counts : iterable of int
        Number of times that each word occurs.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If a word holds a tab or a line break, or there are not as many codes and counts as words.

    Examples
    --------
    >>> write_brown_paths("memory://paths", ["1", "0"], ["cat", "a"], [2, 5])
    >>> read_brown_paths("memory://paths")
    [('0', 'a', 5), ('1', 'cat', 2)]
    """
    lines = sorted(
        zip(codes, words, map(int, counts), strict=True), key=lambda line: (line[0], -line[2], line[1])
    )
    for _, word, _ in lines:
        if any(blank in word for blank in "\t\n\r"):
            raise ValueError(f"the word {word!r} holds a tab or a line break, but a paths file cannot")
    with fsspec.open(
        path, "wt", encoding="utf-8", newline="\n", compression="infer", **(storage_options or {})
    ) as file:
        file.writelines(f"{code}\t{word}\t{count}\n" for code, word, count in lines)


def read_brown_paths(
    path: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> list[tuple[str, str, int]]:
    """Read bit strings, words and counts.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2; UTF-8.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    list of (str, str, int)
        Bit string, word and count of each line, in the order of the file.

    Raises
    ------
    ValueError
        If a line is not a bit string, a word and a count, or the file is not UTF-8; the line is named.

    Examples
    --------
    >>> with fsspec.open("memory://one-path", "w") as file:
    ...     _ = file.write("0110 cat 7".replace(" ", chr(9)))
    >>> read_brown_paths("memory://one-path")
    [('0110', 'cat', 7)]
    """
    lines = []
    with open_text(path, storage_options) as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").split("\t")
            # The bit string may be empty: the only cluster of a tree of one.
            if len(fields) != 3 or set(fields[0]) - set("01") or not fields[2].isdecimal():
                raise ValueError(
                    f"{path}, line {number} is {line!r:.60}, but must be bit string, word and count"
                )
            lines.append((fields[0], fields[1], int(fields[2])))
    return lines
