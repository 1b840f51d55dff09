"""Probes of plans in forked processes, where nothing is imported again: tests/engine has those of new ones."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from dspectral.engine.planning import probe_process, probing
from dspectral.engine.planning.fresh_process import NewWorker
from tests.schedulers import forks


class Forked:
    """A process of a probe, as ``subprocess.Popen`` would start it; a new worker's memory is not measured in it."""

    def __init__(self, command, env):
        asked, answer = map(Path, command[-2:])
        self.process = forks().Process(target=serve, args=(asked, answer, env["TMPDIR"]))
        self.process.start()

    def wait(self, seconds):
        self.process.join(seconds)
        return self.process.exitcode

    def kill(self):
        self.process.kill()


def serve(asked, answer, scratch):
    os.environ["TMPDIR"], tempfile.tempdir = scratch, None
    probe_process.QUICK_SECONDS = 0.0  # two samples: tests/engine has the larger ones
    probe_process.new_worker = lambda _packages, _graphs: NewWorker(200 << 20, 50 << 20, 0.1)
    probe_process.serve(asked, answer)


@contextmanager
def forked_probes():
    """Let plans that are made meanwhile fork their probes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing, "subprocess", SimpleNamespace(Popen=Forked))
        yield


@contextmanager
def nothing_left(folder):
    """Let ``folder`` be that of temporary files meanwhile, in which none is left."""
    forks()  # its socket is a temporary file too
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield
    assert not list(folder.iterdir())
