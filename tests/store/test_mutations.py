"""No change of a file on disk crashes the process that reads it, or is read as data."""

import sys
from pathlib import Path

from tests import forked

ROOT = Path(__file__).parents[2]


def test_changed_files_end_in_a_sentence_or_change_nothing():
    command = [sys.executable, "-m", "tests.store.mutations", "60"]
    done = forked.run(command, cwd=ROOT)
    # A process that a signal ended has a negative code; its last line of stderr is the seed.
    assert done.returncode == 0, done.stderr[-500:]
    (line,) = done.stdout.splitlines()
    assert line.startswith("60 mutations: ")
    assert int(line.split()[2]) > 30
