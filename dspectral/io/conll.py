"""Sentences with tags, a token a line."""

from os import PathLike
from typing import Any, NamedTuple

from dspectral.io.text_files import open_text


class TaggedSentences(NamedTuple):
    """Sentences of words, and a tag for each word.

    Attributes
    ----------
    words : list of list of str
        The words of each sentence.
    tags : list of list of str
        Their tags, in the same order.
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
    r"""Read words and tags from two of the columns between tabs; sentences end at empty lines.

    Parameters
    ----------
    path : str or path-like
        Local path or any fsspec URL, also .gz or .bz2; UTF-8.
    word_column, tag_column : int, default=1 and 2
        Numbers of the two columns, from 1 on: 2 and 4 in the files of Universal Dependencies, whose comments
        (lines that begin with ``#`` and hold no tab) and words of several tokens (``1-2``) are left out.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    TaggedSentences
        Words and tags, in the order of the file.

    Raises
    ------
    ValueError
        If a line has too few columns, a word is empty or the file is not UTF-8 (the line is named), or there is no
        sentence.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://two.conll", "w") as file:
    ...     _ = file.write("the\tDET\ncat\tNOUN\n\nyes\tX\n")
    >>> read_conll("memory://two.conll")
    TaggedSentences(words=[['the', 'cat'], ['yes']], tags=[['DET', 'NOUN'], ['X']])
    """
    if word_column < 1 or tag_column < 1:
        raise ValueError(f"word_column is {word_column} and tag_column {tag_column}, but columns begin at 1")
    least = max(word_column, tag_column)
    found = TaggedSentences([], [])
    words: list[str] = []
    tags: list[str] = []
    with open_text(path, storage_options) as file:
        # `words` and `tags` are those of the sentence that is being read; an empty line closes it.
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) == 1 and not fields[0].strip():
                _close(found, words, tags)
                words, tags = [], []
            elif len(fields) >= least and fields[word_column - 1]:
                if word_column == 1 or fields[0].isdigit():  # else a token of no word of its own: 1-2, 2.1
                    words.append(fields[word_column - 1])
                    tags.append(fields[tag_column - 1])
            elif len(fields) > 1 or not line.startswith("#"):
                raise ValueError(
                    f"{path}, line {number} is {line!r:.60}, but it must have {least} columns, with a word in "
                    f"column {word_column}"
                )
    # The last sentence may end with the file instead of an empty line.
    _close(found, words, tags)
    if not found.words:
        raise ValueError(f"{path} holds no sentence")
    return found


def _close(found: TaggedSentences, words: list[str], tags: list[str]) -> None:
    if words:
        found.words.append(words)
        found.tags.append(tags)
