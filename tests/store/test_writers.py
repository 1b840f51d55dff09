"""Two writers of one store: one is at work, and the other is told so."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dspectral.store import lock
from dspectral.store.counts import open_store
from dspectral.store.from_text.build import build_store
from dspectral.store.location import Location, StoreError
from dspectral.store.lock import hold_write_lock
from dspectral.store.matrix import write_counts
from dspectral.store.writer import discard_unfinished
from dspectral.text.hashing import HashingSettings
from tests.store.flaky import FlakyFileSystem
from tests.store.interrupted import stopped_at

SMALL = HashingSettings(n_features=64)
WRITING = """
import sys, time
from dspectral.store.location import Location
from dspectral.store.lock import hold_write_lock
with hold_write_lock(Location.from_url(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=["local", "memory", "unconditional"])
def where(request, tmp_path):
    """A place for a store; the last one's file system knows no exclusive create."""
    FlakyFileSystem.reset()
    roots = {"local": str(tmp_path), "memory": "memory://writers", "unconditional": "flaky://writers"}
    return Location.from_url(f"{roots[request.param]}/{tmp_path.name}")


def test_a_second_writer_is_told_who_is_at_work_and_one_after_it_is_not(where):
    said = rf"{where.url}.* \(process {os.getpid()} on {socket.gethostname()}, since 20.* UTC\)"
    with hold_write_lock(where), pytest.raises(StoreError, match=said), hold_write_lock(where):
        pass
    with pytest.raises(ZeroDivisionError), hold_write_lock(where):
        raise ZeroDivisionError
    with hold_write_lock(where):
        pass
    assert where.list_names() == []


def test_of_many_writers_at_the_same_time_one_at_a_time_is_at_work(where):
    at_work, most, done = [], [], []
    start = threading.Barrier(6)

    def work(number):
        start.wait()
        while number not in done:
            try:
                with hold_write_lock(where):
                    at_work.append(number)
                    most.append(len(at_work))
                    time.sleep(0.01)
                    at_work.remove(number)
                    done.append(number)
            except StoreError:
                time.sleep(0.001)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(6))
    assert max(most) == 1


def test_a_killed_writer_of_a_folder_holds_nobody_up(tmp_path):
    url = str(tmp_path / "store")
    with subprocess.Popen([sys.executable, "-c", WRITING, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"process {child.pid} on"):
            write_counts(np.eye(2), url)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert write_counts(np.eye(2), url).n_rows == 2
    assert not [path for path in Path(url).iterdir() if "writer" in path.name]


def test_a_killed_writer_of_a_bucket_is_named_until_its_object_is_removed():
    url, dead = "memory://killed", {"pid": 7, "host": "elsewhere", "since": "2026"}
    system, root = lock.fsspec.url_to_fs(url)
    for go_on in (
        partial(system.rm_file, f"{root}/writer.json"),
        partial(discard_unfinished, url, force=True),
    ):
        system.pipe_file(f"{root}/writer.json", json.dumps(dead).encode())
        with pytest.raises(StoreError, match=r"process 7 on elsewhere.*killed/writer\.json.*force=True"):
            write_counts(np.eye(2), url)
        go_on()
        write_counts(np.eye(2), url)
        system.rm(root, recursive=True)


@pytest.mark.parametrize("answer", [FileExistsError("x"), OSError("PreconditionFailed"), OSError("damaged")])
def test_of_two_that_create_the_object_at_the_same_time_one_is_told(answer, monkeypatch):
    where = Location.from_url("memory://both")

    def create(path, content, mode):
        original(path, b'{"pid": 7, "host": "rival", "since": "2026"}')
        raise answer

    system, root = lock.fsspec.url_to_fs(where.url)
    original = system.pipe_file
    monkeypatch.setattr(lock, "retry", lambda function, *arguments, description: function(*arguments))
    monkeypatch.setattr(system, "pipe_file", create)
    kind, said = (OSError, "damaged") if "damaged" in str(answer) else (StoreError, "process 7 on rival")
    with pytest.raises(kind, match=said), hold_write_lock(where):
        pass
    system.rm(root, recursive=True)


def test_every_writer_is_refused_and_readers_see_the_last_finished_store(tmp_path):
    text, url = tmp_path / "a.txt", str(tmp_path / "store")
    text.write_text("the cat sat\nthe dog\n", encoding="utf-8")
    build_store(str(text), url, hashing=SMALL)
    unfinished = str(tmp_path / "unfinished")
    stopped_at("blocks", partial(write_counts, np.eye(2), unfinished))
    with hold_write_lock(Location.from_url(url)), hold_write_lock(Location.from_url(unfinished)):
        for call in (
            partial(build_store, str(text), url, hashing=SMALL, append=True),
            partial(write_counts, np.eye(64), url, append=True),
            partial(write_counts, np.eye(2), unfinished),
            partial(discard_unfinished, unfinished),
            partial(discard_unfinished, unfinished, force=True),
        ):
            with pytest.raises(StoreError, match=rf"writer.*{re.escape(str(tmp_path))}"):
                call()
        assert open_store(url).n_rows == 2
    discard_unfinished(unfinished)
    assert not (Path(unfinished) / "plans" / "0000").exists()
