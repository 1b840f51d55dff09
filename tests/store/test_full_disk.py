"""A disk that is full: the error names the file, and the next call writes what a disk with room has."""

import errno
import os
import re
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from dspectral import SketchedPCA, build_corpus, save, write_counts, write_summary, write_word2vec
from dspectral.datasets import low_rank_counts
from dspectral.store import arrays
from tests.store.contents import contents


@contextmanager
def short_files():
    """No file of this process may have more than 512 bytes: what the system says is that of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


WRITERS = {
    "write_counts": lambda at: write_counts(low_rank_counts(300, 80, 3, seed=1), str(at)),
    "build_corpus": lambda at: build_corpus(str(at.parents[1] / "words.txt"), str(at)),
    "save": lambda at: save(SketchedPCA(4).fit(np.random.default_rng(0).standard_normal((60, 50))), str(at)),
    "write_word2vec": lambda at: write_word2vec(at, list(map(str, range(90))), np.ones((90, 20))),
    "write_summary": lambda at: write_summary(np.ones((60, 50)), at, SketchedPCA(4)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_for_which_there_is_no_room_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "uuid4", lambda: UUID(int=0))
    at, sound = tmp_path / "full" / "written", tmp_path / "sound" / "written"
    for folder in (at.parent, sound.parent):
        folder.mkdir()
    text = "".join(f"a{i} b{i * i} c{i % 7}\n" for i in range(900))
    Path(tmp_path, "words.txt").write_text(text, encoding="utf-8")
    full = re.escape(os.strerror(errno.EFBIG))
    with short_files(), pytest.raises(OSError, match=f"{full}.*{at}"):
        WRITERS[name](at)
    WRITERS[name](at)
    WRITERS[name](sound)
    assert contents(at.parent) == contents(sound.parent)


@pytest.mark.parametrize("name", ["write_word2vec", "write_summary"])
def test_full_disk_leaves_the_earlier_file(name, tmp_path):
    at = tmp_path / "written"
    at.write_bytes(b"earlier")
    with short_files(), pytest.raises(OSError, match=str(at)):
        WRITERS[name](at)
    assert [(path, path.read_bytes()) for path in tmp_path.iterdir()] == [(at, b"earlier")]
