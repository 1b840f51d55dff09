"""Work that the program ``scaling`` times, and the process of one run, which practices, works, and prints what it took.

Started as ``python -m workflows.benchmarks._timed_work WORK KIND N ORDERS``, where the orders are JSON with the folders
and sizes of the toy data and of the data, and the folder for what is written.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Client

from dspectral import (
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

from .._form.schedulers import scheduler
from .._form.usage import Meter
from .._parts.class_chain import ClassChain

KINDS = ("threads", "processes")
BLOCKS = 16
"""Blocks of stores and of the text: eight for each of two workers."""


class Work(NamedTuple):
    """Something that a user waits for: ``data(folder, size, seed)`` writes what ``go(folder, out, size)`` reads."""

    data: Callable[[Path, int, int], object]
    go: Callable[[Path, Path, int], object]


def components_of(size: int, most: int = 100) -> int:
    """Return how many components, or states, are found in so many rows."""
    return min(most, max(2, size // 16))


def text(folder: Path, size: int, seed: int) -> None:
    """Write five sentences a row of a Brown model of ``size / 8`` words, a line each."""
    chain = ClassChain(max(64, size // 8), max(8, size // 400), seed)
    drawn = chain.draw(5 * size, np.random.default_rng(seed)).tolist()
    with (folder / "text.txt").open("w", encoding="ascii") as file:
        file.writelines(f"{' '.join(chain.words[number] for number in sentence)}\n" for sentence in drawn)


def built(folder: Path, out: Path, _size: int) -> None:
    """Read and hash the text, in blocks small enough that each worker has some in the practice, too."""
    build_store(str(folder / "text.txt"), str(out), block_bytes=_cut_of(folder))


def corpus(folder: Path, size: int, seed: int) -> None:
    """Write the text's sentences as numbers of words."""
    text(folder, size, seed)
    build_corpus(
        str(folder / "text.txt"), str(folder / "corpus"), tokens="blanks", block_bytes=_cut_of(folder)
    )


def _cut_of(folder: Path) -> int:
    return max(1024, (folder / "text.txt").stat().st_size // BLOCKS)


def counts(folder: Path, size: int, seed: int) -> None:
    """Write counts of planted topics, a fourth as many columns as rows."""
    block_rows = -(-size // BLOCKS)
    rows = low_rank_counts(size, max(64, size // 4), components_of(size), block_rows=block_rows, seed=seed)
    write_counts(rows, str(folder / "counts"))


def documents(folder: Path, size: int, seed: int) -> None:
    """Write counts of documents, with labels."""
    words, labels = labelled_counts(
        size, max(64, size // 5), max(64, size // 100), components_of(size, 50),
        block_rows=-(-size // BLOCKS), seed=seed,
    )  # fmt: skip
    write_counts(words, str(folder / "documents"), labels=labels)


def decomposed(solver: str, n_passes: int) -> Callable[[Path, Path, int], object]:
    """Return a decomposition by so many passes."""

    def go(folder: Path, _out: Path, size: int) -> object:
        model = TruncatedSVD(components_of(size), solver=solver, n_passes=n_passes, random_state=0)
        return model.fit(open_store(str(folder / "counts")))

    return go


def embedded(folder: Path, _out: Path, size: int) -> None:
    """Count the contexts of words, and decompose the counts."""
    WordEmbedding(components_of(size), random_state=0).fit(open_corpus(str(folder / "corpus")))


def labelled(folder: Path, _out: Path, size: int) -> None:
    """Learn labels from three moments."""
    store = open_store(str(folder / "documents"))
    MomentMultiLabelClassifier(components_of(size, 50), random_state=0).fit(store)


WORKS = {
    "build_store": Work(text, built),
    "krylov, 4 passes": Work(counts, decomposed("krylov", 4)),
    "sketch, 1 pass": Work(counts, decomposed("frequent_directions", 1)),
    "word embedding": Work(corpus, embedded),
    "many labels": Work(documents, labelled),
}
"""By name."""


def main(name: str, kind: str, n: int, orders: dict[str, Any]) -> None:
    """Do some work with so many workers."""
    with workers(kind, n) as client:
        meter = Meter(client)
        for stage, (folder, size) in enumerate(orders["stages"]):
            # What is imported, compiled and cached in the practice is there for one number of workers as for another.
            with meter.measure() as used:
                WORKS[name].go(Path(folder), Path(orders["out"], str(stage)), size)
    metrics = ("seconds", "cpu_seconds", "peak_memory_bytes")
    print(json.dumps({metric: getattr(used, metric) for metric in metrics}))


@contextmanager
def workers(kind: str, n: int) -> Iterator[Client | None]:
    """Let so many threads, or processes, work."""
    if kind == "threads":
        with dask.config.set(scheduler="threads", num_workers=n):
            yield None
    else:
        asked = argparse.Namespace(workers=n, scheduler=None, memory_limit="auto", debug=False)
        with scheduler(asked) as client:
            yield client


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
