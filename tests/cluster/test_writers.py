"""Writers whose disk is full, or that meet another: they say so, and the next call finishes the work.

``python -m tests.cluster.test_writers twice NAME FOLDER DISK`` writes until it fails, and again. As JSON it prints what
the first attempt raised, whether what lay there before was still whole, and digests of what the second left.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import numpy as np
import pytest
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
from tests.cluster.processes import PATIENCE, Started, python
from tests.cluster.rows import fault
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


STORES = (
    "build_store",
    "build_store(hashing=...)",
    "build_store(append=True)",
    "build_corpus",
    "write_counts",
)
DISK_FULL_ERRNOS = (
    "build_store",
    "build_store(append=True)",
    "build_corpus",
    "write_counts",
    "save",
    "write_word2vec",
)


def why_not(folder):
    """The reason why no small disk can be mounted here; empty where one can."""
    if os.name != "posix" or shutil.which("unshare") is None or os.geteuid() != 0:
        return "a small disk needs root and unshare"
    tried = subprocess.run(small_disk(folder, "true"), capture_output=True, text=True, check=False)
    return f"no small disk can be mounted: {tried.stderr.strip()}" if tried.returncode else ""


def small_disk(folder, command):
    """The command that runs another one, for which a disk of a few megabytes is mounted on a folder: for it alone."""
    return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=6m none '{folder}' && exec {command}"]


def outcome(line):
    """What a writer said at its end; None for other lines."""
    return json.loads(line) if line.startswith('{"raised"') else None


@fault("the disk is full, and has room at the next call", "in a write", *DISK_FULL_ERRNOS)
def test_a_full_disk_is_told_and_the_next_call_finishes(tmp_path, measured, name):
    disk, sound = tmp_path / "disk", tmp_path / "sound"
    for folder in (disk, sound):
        folder.mkdir()
    if reason := why_not(disk):
        pytest.skip(reason)
    with dask.config.set(scheduler="sync"):
        begin(name, tmp_path, sound)
        WRITERS[name](tmp_path, sound)
    command = " ".join(
        f"'{word}'" for word in python("-m", "tests.cluster.test_writers", "twice", name, tmp_path, disk)
    )
    since = time.time()
    process = Started(small_disk(disk, command))
    try:
        actual = process.wait_for(outcome)
    finally:
        process.kill()
    kind, message = actual["raised"]
    assert "No space left" in message, (kind, message)
    assert str(disk) in message
    assert actual["whole"]
    assert actual["files"] == files(sound)
    measured("what was not written", time.time() - since)


@fault("another program writes the same store", "in a write", *STORES)
def test_the_second_of_two_writers_is_told_and_the_first_finishes(tmp_path, measured, name):
    disk, sound = tmp_path / "disk", tmp_path / "sound"
    with dask.config.set(scheduler="sync"):
        for folder in (disk, sound):
            folder.mkdir()
            begin(name, tmp_path, folder)
        WRITERS[name](tmp_path, sound)
    command = python("-m", "tests.cluster.test_writers", "once", name, tmp_path, disk)
    first = Started(command)
    try:
        end = time.monotonic() + PATIENCE
        while not (disk / "out" / "writer.json").exists():
            assert time.monotonic() < end
            time.sleep(0.005)
        first.signal(signal.SIGSTOP)
        since = time.time()
        second = Started(command)
        try:
            raised = second.wait_for(outcome)["raised"]
        finally:
            second.kill()
        messages = time.time() - since
        first.signal(signal.SIGCONT)
        assert first.wait_for(outcome)["raised"][0] == "nothing"
    finally:
        first.kill()
    assert raised[0] == "StoreError"
    assert "writ" in raised[1]
    assert str(disk) in raised[1]
    assert files(disk) == files(sound)
    measured("nothing", messages)


if __name__ == "__main__":
    with dask.config.set(scheduler="sync"):
        how, *arguments = sys.argv[1:]
        print(json.dumps({"once": write_once, "twice": write_twice}[how](*arguments)))  # noqa: T201
