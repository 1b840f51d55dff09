"""An exploration finds small tuples, from which the page is written."""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.decomposition.spectrum import Certificate
from dspectral.exploring.classes import Branch
from dspectral.exploring.numbers import scaled_bytes, scaled_seconds
from dspectral.exploring.stages import Stage
from dspectral.types import FloatArray

TEXT, TOKENS, ROWS = "text", "tokens", "documents' words"
"""The kinds of data that a stage reads."""


class Vocabulary(NamedTuple):
    """Words and how often they occur.

    Attributes
    ----------
    words : list of str
        Frequent words in order of falling count; the first is ``"<?>"``.
    counts : ndarray of int64, shape (n_words,)
        Number of tokens of each.
    document_frequency : ndarray of int64, shape (n_words,)
        Number of documents that hold each.
    telling : ndarray of int64, shape (n,)
        Words that cluster in few documents, the most telling first.
    ranks, rank_counts : ndarray of int64, shape (n_points,)
        Some ranks of all types, evenly on a logarithmic scale, and the counts there.
    rank_words : list of str
        The words there.
    """

    words: list[str]
    counts: NDArray[np.int64]
    document_frequency: NDArray[np.int64]
    telling: NDArray[np.int64]
    ranks: NDArray[np.int64]
    rank_counts: NDArray[np.int64]
    rank_words: list[str]


class End(NamedTuple):
    """One end of a direction.

    `words`: words with the largest weights, and these, relative to the direction's largest; `documents`:
    numbers of the most typical documents.
    """

    words: list[tuple[str, float]]
    documents: list[int]


class Directions(NamedTuple):
    """Latent directions of the documents.

    `ends`: positive and negative end of each direction that is shown; `singular_values` (k,): singular
    values; `energy`: squared Frobenius norm of the weighted documents; `certificate`: bound on the error of
    each squared singular value; `most_documents`: words in more documents were left out.
    """

    ends: list[tuple[End, End]]
    singular_values: NDArray[np.float64]
    energy: float
    certificate: Certificate
    most_documents: int


class Documents(NamedTuple):
    """Some documents and their nearest.

    Attributes
    ----------
    texts : dict of int to (str, str)
        Source and beginning of each document that is shown, by its number.
    nearest : dict of int to list of (int, float)
        Nearest documents of some, with their cosines.
    sample : list of int
        Documents drawn at random, of twice as many those of which the directions hold most.
    """

    texts: dict[int, tuple[str, str]]
    nearest: dict[int, list[tuple[int, float]]]
    sample: list[int]


class WordSpace(NamedTuple):
    """Vectors of words, as neighbors and as a map.

    `near` (n_listed, n): numbers of the words nearest to each of the most frequent words, which begin with
    number 1; `cosines` (n_listed, n): their cosines; `points` (n_mapped, 2): places of the most frequent
    words on the map.
    """

    near: NDArray[np.int64]
    cosines: NDArray[np.float32]
    points: FloatArray


class Classes(NamedTuple):
    """Brown classes.

    `tree`: the tree; `groups` (n_words,): group of each word, which has a color; `codes`: bit string of each
    word; `information`: average mutual information of adjacent classes, in bits.
    """

    tree: Branch
    groups: NDArray[np.int64]
    codes: list[str]
    information: float


@dataclass
class Findings:
    """Vocabulary, directions, documents, word space and classes that were found in a text.

    `name`: title of the page, the name of the first source; `size`: ``documents``, ``sentences``, ``tokens``,
    ``types`` and ``bytes`` of the text; `settings`: settings with which it was made, sizes after the rule for
    short texts among them; `vocabulary`: frequent words; `directions`: latent directions, if the text has
    enough documents; `documents`: documents that are shown; `space`: nearest words and their map; `classes`:
    brown classes; `missing`: why a part is None, by its name; `stages`: the steps that were done, and how
    long each took; `seconds`: wall-clock time of all; `peak_memory_bytes`: largest memory of this process
    since it started (0 where the system does not say), or what the caller has measured.
    """

    name: str
    size: dict[str, int | None]
    settings: dict[str, Any]
    vocabulary: Vocabulary
    directions: Directions | None = None
    documents: Documents | None = None
    space: WordSpace | None = None
    classes: Classes | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    stages: list[Stage] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def sentence(self) -> str:
        """Return in a sentence what the text is and what it took.

        Returns
        -------
        str
            The first line of the page.
        """
        size = self.size
        stored = "" if size["bytes"] is None else f" ({scaled_bytes(size['bytes'])} as stored)"
        texts, tokens, rows = (_passes(self.stages, reads) for reads in (TEXT, TOKENS, ROWS))
        memory = (
            f" and at most {scaled_bytes(self.peak_memory_bytes)} of memory" if self.peak_memory_bytes else ""
        )
        return (
            f"{size['documents']:,} documents with {size['tokens']:,} words, {size['types']:,} of them different"
            f"{stored}: read {texts} times as text, {tokens} times as numbered words and {rows} times as counts, in "
            f"{scaled_seconds(self.seconds)}{memory}."
        )


def _passes(stages: list[Stage], reads: str) -> int:
    return sum(stage.passes for stage in stages if stage.reads == reads)
