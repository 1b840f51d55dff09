"""Writers on a full disk: ``python -m tests.cluster.writers twice NAME FOLDER DISK`` writes until it fails, and again.

What happened is printed as JSON: what the first attempt raised, whether what lay there before was still whole, and the
digests of the files that the second attempt left, when there was room.
"""

# ruff: noqa: T201

import json
import sys
from pathlib import Path

import dask
import numpy as np
from scipy import sparse

from dspectral import (
    SketchedPCA,
    VocabularySettings,
    build_corpus,
    build_store,
    open_store,
    save,
    write_counts,
    write_word2vec,
)
from dspectral.text.hashing import HashingSettings
from tests.store.contents import contents

HASHING = HashingSettings(n_features=4096, ngram_range=(1, 2))
ROOM = 96 << 10
"""Bytes that are left on the full disk: less than any of these writers needs."""


def text_in(folder, name, seed, n=1500):
    """Write sentences of random words to a file; return its path."""
    path = Path(folder, name)
    if not path.exists():
        rng = np.random.default_rng(seed)
        words = np.array([f"word{i:05d}" for i in range(4000)])
        lines = (" ".join(words[rng.integers(len(words), size=14)]) for _ in range(n))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def matrix(n_columns=400):
    return sparse.csr_array(np.random.default_rng(2).poisson(0.4, (1500, n_columns)).astype(np.float32))


def built(make, name="a.txt", seed=1, **how):
    """A writer of a store or a corpus of a text."""
    return lambda folder, disk: make(text_in(folder, name, seed), f"{disk}/out", block_bytes=30_000, **how)


def model(_folder, disk):
    save(SketchedPCA(60, solver="frequent_directions").fit(matrix(1200)[:300]), f"{disk}/out")


def vectors(_folder, disk):
    values = np.random.default_rng(4).standard_normal((900, 60)).astype(np.float32)
    write_word2vec(f"{disk}/out", [f"w{i}" for i in range(len(values))], values)


WRITERS = {
    "build_store": built(build_store, vocabulary=VocabularySettings((1, 1))),
    "build_store(append=True)": built(build_store, "b.txt", 3, hashing=HASHING, append=True),
    "build_store(hashing=...)": built(build_store, hashing=HASHING),
    "build_corpus": built(build_corpus),
    "write_counts": lambda _folder, disk: write_counts(matrix(), f"{disk}/out", block_rows=200),
    "save": model,
    "write_word2vec": vectors,
}


def begin(name, folder, disk):
    """Write what must lie there before, while there is room."""
    if name == "build_store(append=True)":
        WRITERS["build_store(hashing=...)"](folder, disk)


def whole(name, disk):
    """Whether what lay there before can still be read."""
    if name != "build_store(append=True)":
        return True
    store = open_store(f"{disk}/out")
    store.check()
    return store.n_rows == 1500


def files(disk):
    """Digests of what lies there."""
    out = Path(disk, "out")
    return contents(out) if out.is_dir() else contents(out.parent)


def write_once(name, folder, disk):
    """Write, and return what was raised."""
    try:
        WRITERS[name](folder, disk)
    except Exception as error:  # noqa: BLE001  the parent judges it
        return {"raised": [type(error).__name__, str(error)]}
    return {"raised": ["nothing", ""]}


def write_twice(name, folder, disk):
    """Write on a full disk, then with room; return what happened."""
    begin(name, folder, disk)
    ballast = Path(disk, "ballast.partial")
    fill(ballast)
    raised = write_once(name, folder, disk)["raised"]
    sound = whole(name, disk)
    ballast.unlink()
    WRITERS[name](folder, disk)
    return {"raised": raised, "whole": sound, "files": files(disk)}


def fill(ballast):
    """Fill a disk but for a little room."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            file.truncate(max(0, file.tell() - ROOM))


if __name__ == "__main__":
    with dask.config.set(scheduler="sync"):
        how, *arguments = sys.argv[1:]
        print(json.dumps({"once": write_once, "twice": write_twice}[how](*arguments)))
