"""A build does not keep what its tasks have freed: it would add to the largest block, and grow from block to block."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOM = 32 << 20
"""Bytes that are freed before each block."""
PROGRAM = """
import sys

import dask
import numpy as np

from dspectral.engine.around.memory import get_resident_bytes
from dspectral.store.from_text import corpus_build

room, folder = int(sys.argv[1]), sys.argv[2]
pins, kept, tokenize_sentences = [], [], corpus_build.tokenize_sentences


def leave_room():
    # Arrays in use lie between those that are freed, so that the heap does not end with free bytes.
    rooms = [(np.ones(room // 64, np.uint8), pins.append(np.ones(1 << 17, np.uint8))) for _ in range(64)]
    rooms.clear()
    kept.append(get_resident_bytes())


def seeing(*arguments, **keywords):
    kept[-1] -= get_resident_bytes()
    found = tokenize_sentences(*arguments, **keywords)
    leave_room()
    return found


with open(f"{folder}/text.txt", "w") as file:
    file.write("the cat sat on the mat\\n" * 600)
with dask.config.set(scheduler="sync"):
    corpus_build.build_corpus(f"{folder}/text.txt", f"{folder}/first", block_bytes=1 << 13)  # loads machine code
    corpus_build.tokenize_sentences = seeing
    leave_room()
    corpus_build.build_corpus(f"{folder}/text.txt", f"{folder}/second", block_bytes=1 << 13)
print(*kept[:-1])
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is of glibc")
def test_what_tasks_have_freed_is_given_back_before_each_block(tmp_path):
    # As workers are told that have memory to spare: arrays of up to 4 MiB stay in the heap.
    heap = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(16 << 20)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOM), str(tmp_path)],
        env={**os.environ, **heap, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        check=True,
        capture_output=True,
        text=True,
    )
    given_back = [int(n_bytes) for n_bytes in done.stdout.split()]
    assert len(given_back) >= 4  # two blocks at least, in both passes
    assert min(given_back) > ROOM // 2
