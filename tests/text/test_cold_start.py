"""What a first run compiles: nothing for a small file, and for a larger one each loop once on a machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import json, sys
import numba.core.event as of_numba
import dspectral
from dspectral.engine import events, listening

class Counter(of_numba.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

of_numba.register("numba:compile", Counter())
heard = []
with listening(heard.append):
    dspectral.build_store(sys.argv[1], sys.argv[2])
told = [event.loop for event in heard if isinstance(event, events.Compiling)]
done = [event.loop for event in heard if isinstance(event, events.Compiled)]
print(json.dumps({"told": told, "done": done, "compiled": Counter.names}))
"""
LOOPS = {
    *("_tokenize", "_tokenize_one", "decode", "encode"),
    *("_hash", "new_buffers", "end_of_group", "hash_group", "_write_cells", "sum_group"),
    *("absorb", "load", "finish", "_rotated", "_scrambled"),
    *("sort_keys", "_digits", "_find_places"),
    "_add_columns",
}
"""All that hashing compiles: whoever adds to it makes every first run longer."""


def build(text, store, cache):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(text), str(store)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


def test_a_small_file_is_stored_without_compiling_anything(tmp_path):
    (tmp_path / "three.txt").write_text("the cat sat on the mat\nthe dog\na cat\n")
    found = build(tmp_path / "three.txt", tmp_path / "three.zarr", tmp_path / "cache")
    assert found == {"told": [], "done": [], "compiled": []}


@pytest.mark.slow
def test_a_larger_file_compiles_the_loops_of_hashing_which_are_told_once_and_kept(tmp_path):
    words = " ".join(f"word{i}" for i in range(12_000))
    (tmp_path / "large.txt").write_text(words)
    first = build(tmp_path / "large.txt", tmp_path / "one.zarr", tmp_path / "cache")
    assert sorted(first["told"]) == sorted(set(first["told"])) == sorted(first["done"])
    assert {"_tokenize", "_hash"} <= set(first["told"])
    ours = [name for name in first["compiled"] if name in LOOPS]
    # Once each: a literal zero, or a shifted number, is of another type to Numba than a variable.
    assert sorted(ours) == sorted(set(ours))
    assert set(first["told"]) <= LOOPS
    again = build(tmp_path / "large.txt", tmp_path / "two.zarr", tmp_path / "cache")
    assert again == {"told": [], "done": [], "compiled": []}
