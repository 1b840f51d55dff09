"""Writers whose disk is full: they say so, what lay there before stays whole, and the next call finishes the work."""

import json
import os
import shutil
import signal
import subprocess
import time

import dask
import pytest

from tests.cluster import writers
from tests.cluster.processes import PATIENCE, Started, python
from tests.cluster.rows import fault

STORES = (
    "build_store",
    "build_store(hashing=...)",
    "build_store(append=True)",
    "build_corpus",
    "write_counts",
)
FULL = ("build_store", "build_store(append=True)", "build_corpus", "write_counts", "save", "write_word2vec")


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


@fault("the disk is full, and has room at the next call", "in a write", *FULL)
def test_a_full_disk_is_told_and_the_next_call_finishes(tmp_path, measured, name):
    disk, sound = tmp_path / "disk", tmp_path / "sound"
    for folder in (disk, sound):
        folder.mkdir()
    if reason := why_not(disk):
        pytest.skip(reason)
    with dask.config.set(scheduler="sync"):
        writers.begin(name, tmp_path, sound)
        writers.WRITERS[name](tmp_path, sound)
    command = " ".join(
        f"'{word}'" for word in python("-m", "tests.cluster.writers", "twice", name, tmp_path, disk)
    )
    since = time.time()
    process = Started(small_disk(disk, command))
    try:
        found = process.wait_for(outcome)
    finally:
        process.kill()
    kind, message = found["raised"]
    assert "No space left on device, free some and call it again" in message, (kind, message)
    assert str(disk) in message
    assert found["whole"]
    assert found["files"] == writers.files(sound)
    measured("what was not written", time.time() - since)


@fault("another program writes the same store", "in a write", *STORES)
def test_the_second_of_two_writers_is_told_and_the_first_finishes(tmp_path, measured, name):
    disk, sound = tmp_path / "disk", tmp_path / "sound"
    with dask.config.set(scheduler="sync"):
        for folder in (disk, sound):
            folder.mkdir()
            writers.begin(name, tmp_path, folder)
        writers.WRITERS[name](tmp_path, sound)
    command = python("-m", "tests.cluster.writers", "once", name, tmp_path, disk)
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
        told = time.time() - since
        first.signal(signal.SIGCONT)
        assert first.wait_for(outcome)["raised"][0] == "nothing"
    finally:
        first.kill()
    assert raised[0] == "StoreError"
    assert "writ" in raised[1]
    assert str(disk) in raised[1]
    assert writers.files(disk) == writers.files(sound)
    measured("nothing", told)
