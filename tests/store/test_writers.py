"""Two writers of one store: one is at work, the other is told so, or takes the place of a dead one."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import dask
import fsspec
import numpy as np
import pytest

from dspectral.store import claim_files, claims
from dspectral.store.arrays import Location, StoreError
from dspectral.store.claim_files import ClaimFiles
from dspectral.store.claims import claimed
from dspectral.store.counts import open_store
from dspectral.store.draft import discard_unfinished
from dspectral.store.from_text.build import build_store
from dspectral.store.matrix import write_counts
from dspectral.text.hashing import HashingSettings
from tests.store.flaky import FlakyFileSystem

pytestmark = pytest.mark.usefixtures("quick")
SMALL = HashingSettings(n_features=64)


@pytest.fixture
def quick(monkeypatch):
    """Short pauses between two looks."""
    monkeypatch.setattr(claim_files, "SETTLED", 0.05)
    monkeypatch.setattr(claims, "POLL", 0.02)
    FlakyFileSystem.reset()


@pytest.fixture(params=["local", "memory", "unconditional"])
def where(request, tmp_path):
    """A place for a store; the last one's file system knows no exclusive create."""
    roots = {
        "local": str(tmp_path / "store"),
        "memory": "memory://writers",
        "unconditional": "flaky://writers",
    }
    place = Location.of(f"{roots[request.param]}-{tmp_path.name}")
    yield place
    system, root = fsspec.url_to_fs(place.url)
    if system.exists(root):
        system.rm(root, recursive=True)


def of_another(**changes):
    """The claim of a process that has never run."""
    owner = {
        "token": "another",
        "host": "elsewhere",
        "machine": claims._machine(),
        "pid": 2**22 + 5,
        "started": "1",
        "since": "2026-01-01 00:00:00 UTC",
    }
    return {**owner, **changes}


def test_a_second_writer_is_told_who_is_at_work_and_one_after_it_is_not(where):
    with claimed(where):
        said = rf"another writer is at work at .* \(process {os.getpid()} on {socket.gethostname()}, since 20"
        with pytest.raises(StoreError, match=said), claimed(where):
            pass
    with claimed(where) as claim:
        claim.confirm()
    assert ClaimFiles(where).numbers() == []


def test_a_claim_ends_with_an_error_and_its_thread_too(where):
    with pytest.raises(ZeroDivisionError), claimed(where):
        raise ZeroDivisionError
    assert [thread for thread in threading.enumerate() if thread.name == "dspectral-writer"] == []
    assert ClaimFiles(where).numbers() == []


def test_the_claim_of_a_process_of_this_machine_that_is_gone_is_taken_over_at_once(where):
    files = ClaimFiles(where)
    assert files.create(1, of_another())
    with dask.config.set({"dspectral.writer-lease": "1 hour"}), claimed(where):
        assert files.numbers() == [2]


@pytest.mark.parametrize("content", [of_another(machine="another"), {}], ids=["another machine", "cut short"])
def test_a_claim_without_a_sign_of_life_for_a_lease_is_taken_over(where, content):
    files = ClaimFiles(where)
    assert files.create(1, content)
    with dask.config.set({"dspectral.writer-lease": "0.3 s"}):
        begin = time.monotonic()
        with claimed(where):
            assert time.monotonic() - begin >= 0.3
            assert files.numbers() == [2]


def test_a_writer_on_another_machine_that_shows_signs_of_life_is_left_alone(where):
    files = ClaimFiles(where)
    assert files.create(1, of_another(machine="another"))
    stop = threading.Event()

    def live():
        number = 0
        while not stop.wait(0.02):
            files.beat(1, f"{number}")
            number += 1

    thread = threading.Thread(target=live)
    thread.start()
    try:
        with (
            dask.config.set({"dspectral.writer-lease": "5 s"}),
            pytest.raises(StoreError, match="process 4194309 on elsewhere"),
            claimed(where),
        ):
            pass
    finally:
        stop.set()
        thread.join()


def test_a_claim_shows_signs_of_life_and_is_confirmed_until_it_is_lost(where):
    files = ClaimFiles(where)
    with dask.config.set({"dspectral.writer-lease": "0.3 s"}), claimed(where) as claim:
        while files.last_beat(1) is None:
            time.sleep(0.01)
        claim.confirm()
        assert files.create(2, of_another())
        with pytest.raises(StoreError, match="another writer has taken over"):
            claim.confirm()
    assert files.numbers() == [1, 2]  # the claim of the other one is not for this one to remove


@pytest.mark.parametrize("how", ["local", "memory", "unconditional"])
def test_of_many_writers_at_the_same_time_one_at_a_time_is_at_work(how, tmp_path):
    url = {"local": str(tmp_path / "s"), "memory": "memory://many", "unconditional": "flaky://many"}[how]
    at_work, most, done = [0], [0], []
    lock, start = threading.Lock(), threading.Barrier(6)

    def work(number):
        start.wait()
        with claimed(Location.of(url)):
            with lock:
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
            time.sleep(0.01)
            with lock:
                at_work[0] -= 1
            done.append(number)

    assert ClaimFiles(Location.of(url)).create(1, of_another())  # a dead one, which all want to take over
    with dask.config.set({"dspectral.writer-wait": "1 hour"}):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(done) == list(range(6))
    assert most == [1]


def of_this_process():
    """The claim of a thread of this process that is at work."""
    rival = {**claims._owner(), "host": "rival"}
    claims._HELD.add(rival["token"])
    return rival


@pytest.mark.parametrize("rival_has", ["a higher number", "the number of the dead one"])
def test_of_two_writers_that_look_at_the_same_time_the_later_one_gives_way(rival_has, where, monkeypatch):
    files, original, rival, met = ClaimFiles(where), ClaimFiles.create, of_this_process(), []
    if rival_has != "a higher number":
        files.create(1, of_another())

    def create(self, number, content):
        if not met:
            met.append(number)
            if rival_has == "a higher number":
                original(files, number + 1, rival)
            else:
                files.remove(1)
                original(files, 1, rival)
        return original(self, number, content)

    monkeypatch.setattr(ClaimFiles, "create", create)
    try:
        with pytest.raises(StoreError, match="on rival, since"), claimed(where):
            pass
    finally:
        claims._HELD.discard(rival["token"])
    assert [files.read(number)["host"] for number in files.numbers()] == ["rival"]


def test_a_writer_may_wait_for_the_first_one_and_then_adds_its_rows(tmp_path):
    url, entered = str(tmp_path / "store"), threading.Event()
    write_counts(np.eye(2), url)

    def hold():
        with claimed(Location.of(url)):
            entered.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    with dask.config.set({"dspectral.writer-wait": "1 minute"}):
        assert write_counts(np.eye(2), url, append=True).n_rows == 4
    thread.join()


def test_every_writer_is_refused_and_readers_see_the_last_finished_store(tmp_path):
    text, url = tmp_path / "a.txt", str(tmp_path / "store")
    text.write_text("the cat sat\nthe dog\n", encoding="utf-8")
    build_store(str(text), url, hashing=SMALL)
    unfinished = str(tmp_path / "unfinished")
    with pytest.raises(ValueError, match="0 or more"):
        write_counts(-np.eye(2), unfinished)
    with claimed(Location.of(url)), claimed(Location.of(unfinished)):
        for call in (
            partial(build_store, str(text), url, hashing=SMALL, append=True),
            partial(write_counts, np.eye(64), url, append=True),
            partial(write_counts, np.eye(2), unfinished),
            partial(discard_unfinished, unfinished),
        ):
            with pytest.raises(StoreError, match="another writer is at work"):
                call()
        assert open_store(url).n_rows == 2
    discard_unfinished(unfinished)
    assert not (Path(unfinished) / "plans" / "0000").exists()


def test_a_writer_whose_place_was_taken_does_not_finish_the_store(tmp_path, monkeypatch):
    url = str(tmp_path / "store")
    original = claims.Claim.confirm

    def confirm(self):
        ClaimFiles(Location.of(url)).create(2, of_another())
        original(self)

    with monkeypatch.context() as patch:
        patch.setattr(claims.Claim, "confirm", confirm)
        with pytest.raises(StoreError, match="taken over"):
            write_counts(np.eye(2), url)
    with pytest.raises(StoreError, match="is not finished"):
        open_store(url)
    assert write_counts(np.eye(2), url).n_rows == 2


HOLDER = """
import sys, time
from dspectral.store.arrays import Location
from dspectral.store.claims import claimed
with claimed(Location.of(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_writer_of_this_machine_holds_nobody_up(tmp_path):
    url = str(tmp_path / "store")
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"process {child.pid} on"):
            write_counts(np.eye(2), url)
        child.send_signal(signal.SIGKILL)
        # Not waited for: a process that has ended and was not asked for its status is no writer either.
        until = time.monotonic() + 60
        while claims._started(child.pid) is not None and time.monotonic() < until:
            time.sleep(0.01)
        assert write_counts(np.eye(2), url).n_rows == 2


def test_a_claim_says_who_where_and_since_when(tmp_path):
    with claimed(Location.of(str(tmp_path / "store"))):
        found = json.loads((tmp_path / "store" / "writer" / "000001.json").read_text(encoding="utf-8"))
        assert found["pid"] == os.getpid()
        assert found["host"] == socket.gethostname()
        assert found["since"].endswith("UTC")


@pytest.mark.parametrize("value", ["soon", "-1 s", None])
def test_a_time_that_is_none_is_refused_by_its_name(value, tmp_path):
    with (
        dask.config.set({"dspectral.writer-wait": value}),
        pytest.raises(ValueError, match=r"dspectral\.writer-wait is .*, but"),
        claimed(Location.of(str(tmp_path / "store"))),
    ):
        pass
