"""What a first run compiles: each loop once on a machine, whatever the types of its arguments."""

import atexit
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba.core import caching

from dspectral import _compiled
from dspectral._compiled import compiled

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import json, sys
import dspectral
from dspectral._compiled import LISTENERS

started, ended = [], []
LISTENERS.append(lambda loop, _module, seconds: (started if seconds is None else ended).append(loop))
dspectral.build_store(sys.argv[1], sys.argv[2])
print(json.dumps({"started": started, "ended": ended}))
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
def test_loops_of_hashing_are_compiled_once_on_a_machine(tmp_path):
    (tmp_path / "three.txt").write_text("the cat sat on the mat\nthe dog\na cat\n")
    first = result(start(tmp_path / "three.txt", tmp_path / "first.zarr", tmp_path / "cache"))
    assert sorted(first["started"]) == sorted(first["ended"])
    assert {"_tokenize", "_hash"} <= set(first["started"]) <= LOOPS
    again = result(start(tmp_path / "three.txt", tmp_path / "again.zarr", tmp_path / "cache"))
    assert again == {"started": [], "ended": []}


def test_a_loop_is_compiled_without_a_place_for_its_machine_code(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    loop = compiled(lambda number: number + 2)
    assert loop(3) == 5
    assert loop(0.5) == 2.5  # compiled once more, for another type


@pytest.mark.parametrize(("is_interactive", "was_compiled", "starts"), [(1, 0, 1), (0, 0, 0), (1, 1, 0)])
def test_interactive_session_compiles_once_in_the_background(
    is_interactive, was_compiled, starts, tmp_path, monkeypatch
):
    commands, ends = [], []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delattr(sys, "ps1", raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(os, "setpriority", lambda _kind, number, nice: commands.append((number, nice)))
    monkeypatch.setattr(atexit, "register", ends.append)
    process = SimpleNamespace(pid=7, terminate=None)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_options: commands.append(command[1:]) or process)
    if is_interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    if was_compiled:
        _compiled.get_warm_marker().touch()
    _compiled.compile_in_background()
    assert commands == starts * [["-m", "dspectral", "warm"], (7, 19)]
    assert len(ends) == starts
