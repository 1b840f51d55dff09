"""Plans of fits and builds: what the first pass tells of the whole, and nothing is written."""

import json

import dask
import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD, build_corpus, build_store, plan, write_counts
from dspectral.engine.around import dry_run
from dspectral.engine.around.context import ProcessMemory, override_context
from dspectral.engine.around.memory import LIBRARY_BYTES
from tests.engine.blocks import normal_rows
from tests.engine.recording import record_events
from tests.temporary import nothing_left


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    counts = sparse.random_array((400, 60), density=0.1, rng=np.random.default_rng(0), format="csr")
    return write_counts(counts.astype(np.float32), str(tmp_path_factory.mktemp("plan") / "c.zarr"), block_rows=50)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat on the mat\n" * 2000, encoding="utf-8")
    return path


def test_plan_is_text_and_json_and_calls_no_hook(store):
    plans = []
    assert record_events(lambda: plans.append(SketchedPCA(3).plan(store))) == []
    (actual,) = plans
    assert "SketchedPCA" in str(actual) == repr(actual)
    content = actual.as_dict()
    assert content["n_tasks"] == actual.n_tasks
    assert json.loads(json.dumps(content)) == content


def test_plan_that_does_not_fit_has_a_refusal(store):
    actual = SketchedPCA(3, sketch_size=50).plan(store, workers=1, memory_limit="100 MB")
    assert actual.memory_limit == 100_000_000
    with pytest.raises(MemoryError, match=r"SketchedPCA .*100 MB.*memory_limit="):
        actual.check()
    assert actual.as_dict()["verdict"] == actual.verdict
    assert actual.verdict.startswith("fits with memory_limit='")
    assert [line.split()[0] for line in str(actual).splitlines()[1:3]] == ["verdict", "reason"]
    with override_context(memory=ProcessMemory(2, 1, 1, 0)):
        assert "one column" in TruncatedSVD(8, solver="krylov").plan(store).refusal


@pytest.mark.parametrize(("build", "n_passes"), [(build_store, 1), (build_corpus, 2)])
def test_plan_of_a_build_writes_nothing(build, n_passes, text, tmp_path):
    with nothing_left(tmp_path / "temporary"):
        actual = plan(build, str(text), str(tmp_path / "never.zarr"), block_bytes=8000, workers=1)
    assert (actual.name, actual.n_passes) == (build.__name__, n_passes)
    assert actual.bytes_read == text.stat().st_size
    assert actual.n_blocks == -(-actual.bytes_read // 8000)
    assert actual.worker_memory >= LIBRARY_BYTES + 5 * actual.bytes_read // actual.n_blocks
    assert not (tmp_path / "never.zarr").exists()


def test_fit_without_passes_and_write_are_planned(tmp_path):
    class Still:
        def fit(self, X):
            return self

    actual = plan(Still(), 7)
    assert (actual.n_passes, actual.n_tasks) == (0, 0)
    actual = plan(write_counts, np.abs(normal_rows(5)), str(tmp_path / "never.zarr"))
    assert (actual.n_passes, actual.n_blocks) == (1, 5)
    assert not (tmp_path / "never.zarr").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan(build_store, (line for line in ["a"]), "memory://never"), "files"),
        (lambda: SketchedPCA(99).plan(normal_rows(3)), "n_components.*99"),  # as fit does
        (lambda: SketchedPCA(2).plan(normal_rows(2)), "workers=N"),
    ],
)
def test_invalid_arguments_of_a_plan_are_refused(call, message, monkeypatch):
    if "workers" in message:
        monkeypatch.setattr(dry_run, "get_process_memory", lambda _client: None)
    with pytest.raises(ValueError, match=message), dask.config.set(scheduler="sync"):
        call()
