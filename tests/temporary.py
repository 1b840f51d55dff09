"""Temporary files of a test, of which none may be left."""

import tempfile
from contextlib import contextmanager

import pytest

from tests.schedulers import forks


@contextmanager
def nothing_left(folder):
    """Let ``folder`` be that of temporary files meanwhile, in which none is left."""
    forks()  # its socket is a temporary file too
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield
    assert not list(folder.iterdir())
