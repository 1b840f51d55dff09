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

    Attributes
    ----------
    words : list of (str, float)
        Words with the largest weights, and these, relative to the direction's largest.
    documents : list of int
        Numbers of the most typical documents.
    """

    words: list[tuple[str, float]]
    documents: list[int]


class Directions(NamedTuple):
    """Latent directions of the documents.

    Attributes
    ----------
    ends : list of (End, End)
        Positive and negative end of each direction that is shown.
    singular_values : ndarray of float64, shape (k,)
        Singular values.
    energy : float
        Squared Frobenius norm of the weighted documents.
    certificate : Certificate
        Bound on the error of each squared singular value.
    most_documents : int
        Words in more documents were left out.
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

    Attributes
    ----------
    near : ndarray of int64, shape (n_listed, n)
        Numbers of the words nearest to each of the most frequent words, which begin with number 1.
    cosines : ndarray of float32, shape (n_listed, n)
        Their cosines.
    points : ndarray of float64, shape (n_mapped, 2)
        Places of the most frequent words on the map.
    """

    near: NDArray[np.int64]
    cosines: NDArray[np.float32]
    points: FloatArray


class Classes(NamedTuple):
    """Brown classes.

    Attributes
    ----------
    tree : Branch
        The tree.
    groups : ndarray of int64, shape (n_words,)
        Group of each word, which has a color; -1 for ``"<?>"``.
    codes : list of str
        Bit string of each word.
    information : float
        Average mutual information of adjacent classes, in bits.
    """

    tree: Branch
    groups: NDArray[np.int64]
    codes: list[str]
    information: float


@dataclass
class Findings:
    """Vocabulary, directions, documents, word space and classes that were found in a text.

    Attributes
    ----------
    name : str
        Title of the page, the name of the first source; set it to another before the page is written.
    size : dict
        ``documents``, ``sentences``, ``tokens``, ``types`` and ``bytes`` of the text; bytes are None where a source
        does not say its size.
    settings : dict
        Settings with which it was made, sizes after the rule for short texts among them.
    vocabulary : Vocabulary
        Frequent words.
    directions : Directions or None
        Latent directions, if the text has enough documents.
    documents : Documents or None
        Documents that are shown.
    space : WordSpace or None
        Nearest words and their map.
    classes : Classes or None
        Brown classes.
    missing : dict of str to str
        Why a part is None, by its name.
    stages : list of Stage
        The steps that were done, and how long each took.
    seconds : float
        Wall-clock time of all.
    peak_memory_bytes : int
        Largest memory of this process since it started (0 where the system does not say), or what the caller has
        measured.
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
