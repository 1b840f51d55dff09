"""Writes that are cut short: killed, or on a full disk. What was finished stays, and is not made again."""

import multiprocessing
import os
import re
import signal
from functools import partial
from pathlib import Path

import dask
import numpy as np
import pytest

from dspectral.store.blocks import find_block
from dspectral.store.counts import open_store
from dspectral.store.from_text import text_input
from dspectral.store.from_text.build import build_store
from dspectral.store.location import Location, StoreError
from dspectral.store.matrix import write_counts
from dspectral.store.vocabulary import VocabularySettings
from dspectral.text.hashing import HashingSettings
from tests.schedulers import forks, scheduled
from tests.store.contents import contents
from tests.store.interrupted import generated, write, write_until


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    words = [f"word{i * i % 37} and word{i % 11}" for i in range(150)]
    path.write_text("\n".join(words) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def processes():
    return forks()


@pytest.fixture
def killed_at(processes):
    """A function that runs a writer until it has written an array, and kills it there."""

    def run(stop, *arguments):
        reached = processes.Event()
        child = processes.Process(target=write_until, args=(stop, reached, *map(str, arguments)))
        child.start()
        while not (there := reached.wait(0.1)) and child.is_alive():
            pass
        child.kill()
        child.join()
        assert there
        assert child.exitcode == -signal.SIGKILL

    return run


def finished_blocks(store):
    where = Location(str(store))
    names = [f"blocks/{folder.name}" for folder in sorted((Path(store) / "blocks").glob("*-*"))]
    return [info for info in (find_block(where, name) for name in names) if info is not None]


@pytest.fixture
def spans_read(monkeypatch):
    """The spans of text that are read from here on."""
    seen = []
    original = text_input.read_file_range

    def read_file_range(span, read_options):
        seen.append(span.start)
        return original(span, read_options)

    monkeypatch.setattr(text_input, "read_file_range", read_file_range)
    return seen


@pytest.mark.parametrize(
    ("kind", "stop"),
    [
        ("hashing", "blocks/0000-000003-000000/indices"),
        ("vocabulary", "blocks/0000-000003-000000/indices"),
        ("vocabulary", "scratch/0000/000002/0/5"),
    ],
)
def test_a_killed_build_goes_on_where_it_was(tmp_path, text, kind, stop, spans_read, killed_at):
    store = tmp_path / "store"
    killed_at(stop, kind, store, text)
    marks = [Location(str(store)).read_attributes(f"scratch/0000/{i:06d}") for i in range(9)]
    counted = {400 * i for i, mark in enumerate(marks) if mark}
    done = {400 * int(info.name.split("-")[1]) for info in finished_blocks(store)}
    assert done or counted
    with pytest.raises(StoreError, match=re.escape(str(store))):
        open_store(str(store))
    made = write(kind, store, text)
    every = {400 * i for i in range(made.n_blocks)}
    again = [] if kind == "hashing" or done else every - counted
    assert sorted(spans_read) == sorted([*(every - done), *again])
    write(kind, tmp_path / "expected", text)
    assert contents(store) == contents(tmp_path / "expected")
    assert not (store / "scratch").exists()


def make_stores(folder, text, matrix):
    """Write one store of each kind, and return the digests of all their files."""
    write_counts(matrix, str(folder / "matrix"))
    ours = {"hashing": HashingSettings(n_features=64), "vocabulary": VocabularySettings((1, 2))}
    for kind, settings in ours.items():
        build_store(str(text), str(folder / kind), block_bytes=400, **{kind: settings})
    return contents(folder)


@pytest.fixture(scope="module")
def expected(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("expected")
    with dask.config.set(scheduler="sync"):
        return make_stores(folder / "sync", text, generated())


@pytest.mark.parametrize(
    ("kind", "n"), [("threads", 4), ("processes", 2), pytest.param("distributed", 2, marks=pytest.mark.slow)]
)
def test_every_scheduler_writes_the_same_bytes(tmp_path, text, expected, kind, n):
    rows, marker = generated(), tmp_path / "killed"
    if kind == "distributed":
        rows = rows.map_blocks(partial(kill_once, marker=str(marker)), dtype=np.float32)
    with scheduled(kind, n):
        assert make_stores(tmp_path / kind, text, rows) == expected
    assert marker.exists() == (kind == "distributed")


def kill_once(block, *, marker, block_id):
    """Kill the process that writes block 4, the first time."""
    if block_id[0] == 4 and not Path(marker).exists():
        assert multiprocessing.parent_process() is not None
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block
