"""Tagged text of several languages, in halves: one may be tuned by, the other scores."""

from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dspectral.io import read_conll

SIDES = ("train", "dev", "test", "all")
NAMES = (
    "de_gsd",
    "en_ewt",
    "es_gsd",
    "fr_gsd",
    "fr_sequoia",
    "id_gsd",
    "ja_gsd",
    "pt_gsd",
    "sv_lines",
    "sv_talbanken",
)
"""Folders of the data sets below ``pos``, with the universal tag in the second column."""


class Tagged(NamedTuple):
    """Sentences of a data set, all of which are learned from without their tags.

    `words, tags`: of each sentence.
    """

    words: list[list[str]]
    tags: list[list[str]]

    def half(self, first: int) -> list[int]:
        """Return the numbers of every other sentence."""
        return list(range(first, len(self.words), 2))

    def tags_of(self, numbers: list[int]) -> list[str]:
        """Return the tags of some sentences, one after the other."""
        return list(chain.from_iterable(self.tags[number] for number in numbers))


def read_tagged(data: Path, name: str) -> Tagged:
    """Return all sentences of a data set, whichever side they are on."""
    folder = data / "pos" / name
    paths = [path for side in SIDES for path in sorted(folder.glob(f"{side}.conll*"))]
    if not paths:
        raise FileNotFoundError(f"{folder} has no file {' or '.join(f'{side}.conll' for side in SIDES)}")
    parts = [read_conll(str(path), word_column=1, tag_column=2) for path in paths]
    return Tagged(*(list(chain.from_iterable(column)) for column in zip(*parts, strict=True)))
