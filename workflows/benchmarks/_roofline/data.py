"""Blocks for the loops: counts, sentences and documents, drawn by Zipf's law."""

import numpy as np
from numpy.typing import NDArray

from dspectral.datasets import low_rank_counts
from dspectral.types import CSRRows, Documents, Sentences

TOKENS_A_ROW = 16
SENTENCE = 20
LETTERS = 26


def columns_of(size: int) -> int:
    """Return the columns of a block of so many rows: 98,304 of 65,536."""
    return max(16, size * 3 // 2)


def counts(size: int, seed: int) -> CSRRows:
    """Draw a block of counts: topics over a background, about 90 entries a row."""
    n_columns = columns_of(size)
    topics = min(50, n_columns)
    return low_rank_counts(size, n_columns, topics, block_rows=size, seed=seed).compute()


def types_of(size: int) -> int:
    """Return the number of word types of sentences: 16,384 for 65,536."""
    return max(8, size // 4)


def tokens(size: int, seed: int) -> NDArray[np.int32]:
    """Draw ids of word types, the frequent ones first."""
    generator, n_types = np.random.default_rng(seed), types_of(size)
    # The inverse of the distribution whose density falls as 1 / rank.
    ranks = np.floor(np.exp(generator.random(TOKENS_A_ROW * size) * np.log(n_types + 1.0))) - 1
    return ranks.astype(np.int32)


def sentences(size: int, seed: int) -> Sentences:
    """Draw sentences of 20 words."""
    ids = tokens(size, seed)
    offsets = np.append(np.arange(0, len(ids), SENTENCE, dtype=np.int64), len(ids))
    return Sentences(ids, offsets)


def word(i: int) -> str:
    """Return a word for a number: frequent ones are short."""
    letters = ["wx"]
    while True:
        letters.append(chr(ord("a") + i % LETTERS))
        i //= LETTERS
        if not i:
            return "".join(letters)


def texts(size: int, seed: int) -> list[str]:
    """Draw documents of 100 words."""
    names = [word(i) for i in range(types_of(size))]
    ids = tokens(size, seed).tolist()
    return [" ".join(names[i] for i in ids[start : start + 100]) for start in range(0, len(ids), 100)]


def documents(size: int, seed: int) -> Documents:
    """Draw documents as a block has them."""
    return Documents.of(texts(size, seed))
