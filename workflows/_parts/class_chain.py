"""Text of any length from a known model: a chain of word classes, each with words of its own."""

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import run_tasks

PART_TOKENS = 10_000_000
"""Tokens of a file."""
SENTENCE_TOKENS = 20
N_NEXT, N_DRAWS = 8, 64
"""Classes that may follow one, and the equal shares in which their probabilities are given."""
CHUNK_SENTENCES = 1 << 14


@dataclass(frozen=True)
class ClassChain:
    """A Brown model: a Markov chain of classes, in which each word has one class."""

    n_types: int
    n_classes: int
    seed: int

    @cached_property
    def following(self) -> NDArray[np.int32]:
        """Classes that follow each class, shape (n_classes, N_DRAWS), each with the same probability."""
        generator = np.random.default_rng([self.seed, 0])
        few = generator.integers(self.n_classes, size=(self.n_classes, N_NEXT))
        shares = generator.dirichlet(np.full(N_NEXT, 0.7), size=self.n_classes).cumsum(axis=1)
        places = (np.arange(N_DRAWS) + 0.5) / N_DRAWS
        picked = np.minimum((shares[:, :, None] < places).sum(axis=1), N_NEXT - 1)
        return np.take_along_axis(few, picked, axis=1).astype(np.int32)

    @cached_property
    def words(self) -> list[str]:
        """The words, in the order of their numbers."""
        return [f"w{number:x}" for number in range(self.n_types)]

    def class_of(self, word: str) -> int:
        """Return the class of a word."""
        return int(word[1:], 16) % self.n_classes

    def draw(self, n_sentences: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw sentences, shape (n_sentences, SENTENCE_TOKENS)."""
        n_own = (self.n_types - np.arange(self.n_classes) + self.n_classes - 1) // self.n_classes
        states = generator.integers(self.n_classes, size=n_sentences)
        found = np.empty((n_sentences, SENTENCE_TOKENS), dtype=np.int64)
        for t in range(SENTENCE_TOKENS):
            # Each probability of a place is the length of its interval on the scale of the logarithm.
            ranks = np.exp(generator.random(n_sentences) * np.log(n_own[states] + 1.0)).astype(np.int64) - 1
            found[:, t] = np.minimum(ranks, n_own[states] - 1) * self.n_classes + states
            states = self.following[states, generator.integers(N_DRAWS, size=n_sentences)]
        return found

    def write(self, folder: Path, n_tokens: int) -> list[str]:
        """Write text as compressed files of ten million tokens, unless they are there."""
        name = f"{self.n_types}-{self.n_classes}-{self.seed}"
        parts = []
        for number, start in enumerate(range(0, n_tokens, PART_TOKENS)):
            size = min(PART_TOKENS, n_tokens - start)
            parts.append(Part(self, folder / f"{name}-{number}-{size}.txt.gz", number, size))
        folder.mkdir(parents=True, exist_ok=True)
        run_tasks(write_part, [part for part in parts if not part.path.exists()], name="draw")
        return [str(part.path) for part in parts]


class Part(NamedTuple):
    """A file of the text: its model, its path, its place in the text, which is its seed, and its tokens."""

    chain: ClassChain
    path: Path
    number: int
    n_tokens: int


def write_part(part: Part) -> None:
    """Write one file, which has its name only when it is complete."""
    chain, unfinished = part.chain, part.path.with_suffix(".part")
    generator = np.random.default_rng([chain.seed, 1, part.number])
    words, n_left = chain.words, max(1, part.n_tokens // SENTENCE_TOKENS)
    with gzip.open(unfinished, "wt", encoding="ascii", compresslevel=1) as file:
        while n_left:
            n = min(CHUNK_SENTENCES, n_left)
            for sentence in chain.draw(n, generator).tolist():
                file.write(" ".join([words[number] for number in sentence]) + "\n")
            n_left -= n
    unfinished.rename(part.path)
