"""Data of these tests, a file system that is slow and fails, estimators, and the bits of what is fitted.

``python -m tests.cluster.fits COUNTS CORPUS SCHEDULER N`` fits everything and prints the bits as JSON.
"""

# ruff: noqa: T201

import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import dask
import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem
from scipy import sparse

from dspectral import (
    AnchorHMM,
    HybridLSI,
    LocalLSI,
    MomentMultiLabelClassifier,
    SketchedPCA,
    TreePCA,
    TruncatedSVD,
    WordEmbedding,
    build_corpus,
    open_corpus,
    open_store,
    write_counts,
)
from dspectral.engine.around.callbacks import PassStarted
from tests.engine.recording import Recorder
from tools import same_bits

N_ROWS, N_COLUMNS, N_LABELS, BLOCK_ROWS = 600, 160, 4, 50
SENTENCES, BLOCK_BYTES = 500, 900


class Places(NamedTuple):
    """Where the data is, as URLs, and the options of its file system."""

    counts: str
    corpus: str
    options: dict = {}  # noqa: RUF012  never changed


def make_data(folder):
    """Write a store of 12 blocks with labels and a corpus of about as many; return their places."""
    rng = np.random.default_rng(4)
    classes = rng.integers(N_LABELS, size=N_ROWS)
    rates = 0.1 + 0.6 * (np.arange(N_COLUMNS) % N_LABELS == classes[:, None])
    rows = sparse.csr_array(rng.poisson(rates).astype(np.float32))
    labels = sparse.csr_array(
        ((np.arange(N_LABELS) == classes[:, None]) | (rng.random((N_ROWS, N_LABELS)) < 0.2)) * 1.0
    )
    places = Places(str(Path(folder, "counts")), str(Path(folder, "corpus")))
    with dask.config.set(scheduler="sync"):
        write_counts(rows, places.counts, labels=labels, block_rows=BLOCK_ROWS)
        build_corpus(str(text_file(folder)), places.corpus, block_bytes=BLOCK_BYTES)
    return places


def text_file(folder):
    """Write sentences of 90 words that come in three classes."""
    rng = np.random.default_rng(5)
    lines = []
    for _ in range(SENTENCES):
        states = (rng.integers(3) + np.arange(rng.integers(3, 9))) % 3
        lines.append(" ".join(f"{'abc'[state]}{rng.zipf(1.5) % 30}" for state in states))
    path = Path(folder, "text.txt")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


READS = itertools.count(1)


class ShakyFileSystem(LocalFileSystem):
    """Local files behind a bad line, under ``shaky://``.

    Each read takes ``delay`` seconds. All processes together fail ``failures`` times, one of ``every`` reads, and each
    failure leaves a file in the folder ``counter``.
    """

    protocol = "shaky"

    def __init__(self, delay=0.0, failures=0, every=5, counter="", **options):
        super().__init__(**options)
        self.delay, self.failures, self.every, self.counter = delay, failures, every, counter

    @classmethod
    def _strip_protocol(cls, path):  # fsspec of 2024 knows file:// alone
        return super()._strip_protocol(os.fspath(path).removeprefix("shaky://"))

    def cat_file(self, path, start=None, end=None, **options):
        """Read bytes, late, or not at all."""
        time.sleep(self.delay)
        if self.counter and next(READS) % self.every == 0 and self._fails():
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().cat_file(path, start=start, end=end, **options)

    def _fails(self):
        """Claim one of the failures that are left, among all processes."""
        for number in range(self.failures):
            try:
                os.close(os.open(Path(self.counter, str(number)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


fsspec.register_implementation("shaky", ShakyFileSystem, clobber=True)


def shaky(places, **options):
    """The same data behind a bad line."""
    return places._replace(counts=f"shaky://{places.counts}", corpus=f"shaky://{places.corpus}", options=options)


def tree(_counts, corpus):
    vectors = np.random.default_rng(6).standard_normal((len(corpus.words), 5))
    return TreePCA(length=8, vectors=(corpus.words, vectors)).fit(corpus)


FITS = {
    "SketchedPCA": lambda counts, _: SketchedPCA(4, solver="frequent_directions", sketch_size=24).fit(counts),
    "TruncatedSVD": lambda counts, _: TruncatedSVD(4, solver="krylov", n_passes=3, random_state=1).fit(counts),
    "HybridLSI": lambda counts, _: HybridLSI(3, alpha=0.4).fit(counts, np.arange(counts.n_rows) % 3),
    "MomentMultiLabelClassifier": lambda counts, _: MomentMultiLabelClassifier(3, n_em_iter=1).fit(counts),
    "LocalLSI": lambda counts, _: LocalLSI(2, method="rds").fit(counts),
    "TreePCA": tree,
    "WordEmbedding": lambda _, corpus: WordEmbedding(4, window=2, random_state=0).fit(corpus),
    "AnchorHMM": lambda _, corpus: AnchorHMM(3, spelling=0.0, min_count=2, n_em_iter=2).fit(corpus),
}
"""Of each estimator, how it is fitted to an opened store and an opened corpus."""


def fitted(name, places, without=()):
    """Fit an estimator to the data at its places, without some blocks of the store."""
    counts = open_store(places.counts, without=without, storage_options=places.options)
    corpus = open_corpus(places.corpus, storage_options=places.options)
    return FITS[name](counts, corpus)


def bits_of(model):
    """One digest of every fitted attribute of a model."""
    return hashlib.sha256(json.dumps(same_bits.bits(model), sort_keys=True).encode()).hexdigest()


def calm_bits(places, names=tuple(FITS), **configuration):
    """Bits of fits, by the scheduler that the configuration of Dask names."""
    with dask.config.set(**configuration):
        return {name: bits_of(fitted(name, places)) for name in names}


def n_tasks(places):
    """Number of tasks of every fit, by one thread."""
    found = {}
    with dask.config.set(scheduler="sync"):
        for name in FITS:
            heard = []
            with Recorder(heard.append):
                fitted(name, places)
            begun = [event for event in heard if isinstance(event, PassStarted)]
            found[name] = sum(event.n_blocks + event.n_merges for event in begun)
    return found


if __name__ == "__main__":
    counts, corpus, scheduler, n = sys.argv[1:]
    configuration = {"scheduler": scheduler, "num_workers": int(n)}
    with ExitStack() as stack:
        if scheduler == "processes":  # one pool: Dask would start another for each pass
            spawned = ProcessPoolExecutor(int(n), multiprocessing.get_context("spawn"))
            configuration["pool"] = stack.enter_context(spawned)
        print(json.dumps(calm_bits(Places(counts, corpus), **configuration)))
