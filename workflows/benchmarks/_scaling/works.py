"""Work that is timed with one worker and with more: reading text, decompositions, counts of contexts and moments."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dspectral import (
    AnchorHMM,
    MomentMultiLabelClassifier,
    TruncatedSVD,
    WordEmbedding,
    build_corpus,
    build_store,
    open_corpus,
    open_store,
    write_counts,
)
from dspectral.datasets import labelled_counts, low_rank_counts

from ..._parts.class_chain import ClassChain

BLOCKS = 16
"""Blocks of stores and of the text: eight for each of two workers."""
SENTENCES_A_ROW = 5
"""Sentences of the text for each row of counts."""
SENTENCES_AT_ONCE = 50_000


class Work(NamedTuple):
    """Something that a user waits for.

    `data`: ``data(folder, size, seed)`` writes to a new folder what is read; `go`: ``go(folder, out, size)``
    reads it, and writes what it writes below ``out``.
    """

    data: Callable[[Path, int, int], object]
    go: Callable[[Path, Path, int], object]


def components_of(size: int) -> int:
    """Return how many components are found in so many rows: 100 of 1,600 rows or more."""
    return min(100, max(2, size // 16))


def states_of(size: int) -> int:
    """Return how many states documents of so many rows have: 50 of 800 rows or more."""
    return min(50, components_of(size))


def text(folder: Path, size: int, seed: int) -> None:
    """Write sentences of a Brown model of ``size / 8`` words, a line each."""
    chain = ClassChain(max(64, size // 8), max(8, size // 400), seed)
    generator, n_left = np.random.default_rng(seed), SENTENCES_A_ROW * size
    with (folder / "text.txt").open("w", encoding="ascii") as file:
        while n_left:
            n = min(SENTENCES_AT_ONCE, n_left)
            file.writelines(
                f"{' '.join(chain.words[number] for number in sentence)}\n"
                for sentence in chain.draw(n, generator).tolist()
            )
            n_left -= n


def corpus(folder: Path, size: int, seed: int) -> None:
    """Write the text's sentences as numbers of words."""
    text(folder, size, seed)
    build_corpus(str(folder / "text.txt"), str(folder / "corpus"), block_bytes=cut_of(folder))


def cut_of(folder: Path) -> int:
    """Return the bytes of a block of the text, so that the practice on few sentences gives each worker some, too."""
    return max(1024, (folder / "text.txt").stat().st_size // BLOCKS)


def rows_of_text(folder: Path, out: Path, _size: int) -> None:
    """Read and hash the text, and write its counts."""
    build_store(str(folder / "text.txt"), str(out), block_bytes=cut_of(folder))


def words_of_text(folder: Path, out: Path, _size: int) -> None:
    """Read the text, find its words, and write its sentences."""
    build_corpus(str(folder / "text.txt"), str(out), block_bytes=cut_of(folder))


def counts(folder: Path, size: int, seed: int) -> None:
    """Write counts of planted topics, a fourth as many columns as rows."""
    n_columns = max(64, size // 4)
    rows = low_rank_counts(size, n_columns, components_of(size), block_rows=-(-size // BLOCKS), seed=seed)
    write_counts(rows, str(folder / "counts"))


def documents(folder: Path, size: int, seed: int) -> None:
    """Write counts of documents, with labels."""
    words, labels = labelled_counts(
        size, max(64, size // 5), max(64, size // 100), states_of(size), block_rows=-(-size // BLOCKS), seed=seed
    )  # fmt: skip
    write_counts(words, str(folder / "documents"), labels=labels)


def krylov(folder: Path, _out: Path, size: int) -> None:
    """Decompose in four passes."""
    model = TruncatedSVD(components_of(size), solver="krylov", n_passes=4, random_state=0)
    model.fit(open_store(str(folder / "counts")))


def sketch(folder: Path, _out: Path, size: int) -> None:
    """Sketch in one pass, with a certificate."""
    model = TruncatedSVD(components_of(size), solver="frequent_directions", n_passes=1, random_state=0)
    model.fit(open_store(str(folder / "counts")))


def embedding(folder: Path, _out: Path, size: int) -> None:
    """Count the contexts of words, and decompose the counts."""
    WordEmbedding(components_of(size), random_state=0).fit(open_corpus(str(folder / "corpus")))


def states(folder: Path, _out: Path, _size: int) -> None:
    """Count pairs of adjacent words, and find states in them."""
    AnchorHMM(8, random_state=0).fit(open_corpus(str(folder / "corpus")))


def moments(folder: Path, _out: Path, size: int) -> None:
    """Learn labels from three moments."""
    model = MomentMultiLabelClassifier(states_of(size), random_state=0)
    model.fit(open_store(str(folder / "documents")))


WORKS = {
    "build_store": Work(text, rows_of_text),
    "build_corpus": Work(text, words_of_text),
    "krylov, 4 passes": Work(counts, krylov),
    "sketch, 1 pass": Work(counts, sketch),
    "word embedding": Work(corpus, embedding),
    "anchor HMM": Work(corpus, states),
    "many labels": Work(documents, moments),
}
"""By name."""
