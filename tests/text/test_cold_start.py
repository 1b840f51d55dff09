"""What a first run compiles: each loop once on a machine, whatever the types of its arguments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from numba.core import caching, config

from dspectral import _machine_code
from dspectral._compiled import compiled, read_only

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import json, sys
import numba.core.event as of_numba
import dspectral
from dspectral._compiled import LISTENERS

class Counter(of_numba.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

of_numba.register("numba:compile", Counter())
started, ended = [], []
LISTENERS.append(lambda loop, _module, seconds: (started if seconds is None else ended).append(loop))
dspectral.build_store(sys.argv[1], sys.argv[2])
print(json.dumps({"told": started, "done": ended, "compiled": Counter.names}))
"""
LOOPS = {
    *("_tokenize", "_tokenize_one", "decode", "encode"),
    *("_hash", "find_group_end", "hash_group", "_write_cells", "sum_group"),
    *("update_hash", "load_uint32", "finish_hash", "_rotate_left", "_scramble"),
    *("sort_keys", "_digits", "_find_places", "_scatter"),
    "add_columns",
}
"""All that hashing compiles: whoever adds to it makes every first run longer."""


def start(text, store, cache):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(text), str(store)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def result(process):
    with process:
        printed = process.communicate()[0]
    assert process.returncode == 0
    return json.loads(printed)


@pytest.mark.slow
def test_each_loop_of_hashing_is_compiled_once_on_a_machine_which_is_told_and_kept(tmp_path):
    (tmp_path / "three.txt").write_text("the cat sat on the mat\nthe dog\na cat\n")
    # Two processes at once: one of them compiles a loop, the other waits for its machine code.
    both = [start(tmp_path / "three.txt", tmp_path / f"{i}.zarr", tmp_path / "cache") for i in range(2)]
    found = [result(process) for process in both]
    told = [name for one in found for name in one["told"]]
    assert sorted(told) == sorted(name for one in found for name in one["done"])
    assert all(len(one["told"]) == len(set(one["told"])) for one in found)
    assert {"_tokenize", "_hash"} <= set(told) <= LOOPS
    # Once each: a literal zero, or a shifted number, is of another type to Numba than a variable.
    compiled = [name for one in found for name in one["compiled"] if name in LOOPS]
    assert sorted(compiled) == sorted(set(compiled))
    again = result(start(tmp_path / "three.txt", tmp_path / "again.zarr", tmp_path / "cache"))
    assert again == {"told": [], "done": [], "compiled": []}


def test_a_loop_that_another_process_compiles_for_too_long_is_compiled_here(tmp_path, monkeypatch):
    monkeypatch.setattr(_machine_code, "WAIT_SECONDS", 0.01)
    turn = _machine_code._CompileLock()
    with FileLock(tmp_path / "loop.lock"), turn:
        with pytest.warns(UserWarning, match=r"loop\.lock"):
            turn.wait(tmp_path / "loop.lock")
        turn.wait(tmp_path / "loop.lock")  # what the loop calls does not wait again
        assert turn.lock is None


def test_a_turn_ends_with_the_outermost_loop_also_after_an_error(tmp_path):
    turn, other = _machine_code._CompileLock(), FileLock(tmp_path / "loop.lock")

    def fail():
        with turn:
            with turn:
                turn.wait(tmp_path / "loop.lock")
            assert turn.lock.is_locked
            raise ValueError("no such type")

    with pytest.raises(ValueError, match="no such type"):
        fail()
    assert turn.lock is None
    with other.acquire(timeout=0):
        assert other.is_locked


@pytest.mark.parametrize("fault", ["no folder", "a folder that cannot be read", "a full disk"])
def test_a_loop_is_compiled_without_a_place_for_its_machine_code(fault, monkeypatch, tmp_path):
    def refuse(*_arguments):
        raise OSError(28, fault)

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    if fault == "no folder":
        monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    else:
        name = "save" if fault == "a full disk" else "load"
        monkeypatch.setattr(caching.IndexDataCacheFile, name, refuse)
    loop = compiled(lambda number: number + 2)
    assert loop(3) == 5
    assert loop(0.5) == 2.5  # compiled once more, for another type


def test_a_wrong_setting_of_numba_is_not_hidden(monkeypatch):
    monkeypatch.setattr(config, "CACHE_LOCATOR_CLASSES", "no_such_module.Locator")
    with pytest.raises(RuntimeError, match="no_such_module"):
        compiled(lambda number: number + 3)(1)


@compiled
def plus_one(number):
    return number + 1


@compiled
def total(values):
    found = plus_one(0)
    at = 0
    while at < values.size:
        found += plus_one(values[at]) + plus_one(at)
        at = plus_one(at)
    return found


def test_a_loop_is_compiled_once_for_literals_variables_and_integers_of_any_width(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    assert total(read_only(np.array([5, 7], dtype=np.int32))) == 1 + (6 + 1) + (8 + 2)
    assert [str(of) for (of,) in plus_one.dispatcher().signatures] == ["int64"]
