"""The ``paths`` file of the usual Brown tools: bit string, word, count, with tabs between them."""

from collections.abc import Iterable, Sequence
from typing import Any

import fsspec


def write_paths(
    path: str,
    codes: Sequence[str],
    words: Sequence[str],
    counts: Iterable[int],
    *,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write one line a word, in the order of bit strings, the most frequent word of each first.

    Raises
    ------
    ValueError
        If a word holds a tab or a line break.

    Examples
    --------
    >>> write_paths("memory://paths", ["1", "0"], ["cat", "a"], [2, 5])
    >>> read_paths("memory://paths")
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


def read_paths(path: str, *, storage_options: dict[str, Any] | None = None) -> list[tuple[str, str, int]]:
    """Read bit strings, words and counts.

    Raises
    ------
    ValueError
        If a line is not a bit string, a word and a count; it is named.
    """
    lines = []
    with fsspec.open(
        path, "rt", encoding="utf-8", newline="\n", compression="infer", **(storage_options or {})
    ) as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) != 3 or set(fields[0]) - set("01") or not fields[2].isdecimal():
                raise ValueError(
                    f"{path}, line {number} is {line!r:.60}, but must be bit string, word and count"
                )
            lines.append((fields[0], fields[1], int(fields[2])))
    return lines
