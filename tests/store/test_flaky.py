"""Storage that fails for a moment: a seeded share of reads and writes; what is there is never taken for missing."""

import gc

import dask
import fsspec
import numpy as np
import pytest

from dspectral.engine.around import retries
from dspectral.engine.around.callbacks import TaskRetried
from dspectral.store.counts import open_store
from dspectral.store.from_text.build import build_store
from dspectral.store.from_text.corpus_build import build_corpus
from dspectral.store.location import Location
from dspectral.store.matrix import write_counts
from dspectral.text.hashing import HashingSettings
from tests.engine.recording import Recorder
from tests.store.flaky import FlakyFileSystem
from tests.strategies import zipf_counts

pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in")  # requests of Zarr beside one that failed
SMALL = HashingSettings(n_features=64)
TEXT = "".join(f"word{i % 7} and word{i % 11}\n" for i in range(90))


@pytest.fixture(autouse=True)
def storage(monkeypatch):
    """No pauses, so many attempts that all of them do not fail, and one thread: the same calls fail each time."""
    monkeypatch.setattr(retries.time, "sleep", lambda _: None)
    FlakyFileSystem.reset()
    with dask.config.set({"scheduler": "sync", "dspectral.retries": 9}):
        yield
    FlakyFileSystem.reset()
    FlakyFileSystem.store.clear()
    gc.collect()


def put(url, text=TEXT):
    with fsspec.open(url, "w") as file:
        file.write(text)


@pytest.mark.slow
def test_stores_on_flaky_storage_are_what_they_are_on_a_good_one(tmp_path):
    put("flaky://text.txt")
    counts = zipf_counts(40, 20, 5, seed=0)
    good = [build_store("flaky://text.txt", str(tmp_path / "text"), hashing=SMALL, block_bytes=500)]
    good.append(write_counts(counts, str(tmp_path / "counts"), block_rows=10))
    corpus = build_corpus("flaky://text.txt", str(tmp_path / "corpus"), block_bytes=900)
    FlakyFileSystem.reset(seed=1, fails=0.05)
    heard = []
    with Recorder(heard.append):
        stores = [build_store("flaky://text.txt", "flaky://text", hashing=SMALL, block_bytes=500)]
        stores.append(write_counts(counts, "flaky://counts", block_rows=10))
        stores.append(write_counts(counts, "flaky://counts", block_rows=10, append=True))
        words = build_corpus("flaky://text.txt", "flaky://corpus", block_bytes=900)
        for store, expected in zip(stores, good, strict=False):
            store.check()
            assert np.array_equal(store.counts.compute().toarray(), expected.counts.compute().toarray())
            assert np.array_equal(store.document_frequency, expected.document_frequency)
        assert open_store("flaky://counts").n_rows == 80
        assert (words.words, words.n_tokens) == (corpus.words, corpus.n_tokens)
    assert FlakyFileSystem.n_faults > 50
    retries = [event for event in heard if isinstance(event, TaskRetried)]
    assert {event.error.split(":")[0] for event in retries} == {"injected"}
    gc.collect()  # what Zarr leaves of the requests beside one that failed warns here, and not at the end of all tests


def test_storage_that_fails_for_good_is_given_up_with_its_own_error():
    store = write_counts(np.eye(3), "flaky://counts")
    FlakyFileSystem.reset(fails=1.0)
    with pytest.raises(OSError, match="injected") as raised:
        store.counts.compute()
    (note,) = raised.value.__notes__
    assert "10 attempts" in note


def test_a_listing_that_fails_is_asked_again():
    where = Location.from_url("flaky://counts")
    write_counts(np.eye(3), "flaky://counts")
    FlakyFileSystem.reset(fails=0.5, seed=5)
    assert {"blocks", "totals", "zarr.json"} <= set(where.list_names())
