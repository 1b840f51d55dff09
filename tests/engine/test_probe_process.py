import time

import cloudpickle
import dask
import pytest

from dspectral.engine.planning import probe_process, probing


def fit(path, seconds):
    with path.open("a") as file:
        file.write("fitted\n")
    time.sleep(seconds)


def probed(tmp_path, n_calls=4):
    """Probe a fit that takes about as long on any sample; return the record, and how often it ran."""
    path = tmp_path / "fits"
    call = cloudpickle.dumps((path, 0.01))
    shares = [2.0 ** (i - n_calls) for i in range(n_calls)]
    asked = tmp_path / "asked"
    asked.write_bytes(cloudpickle.dumps((cloudpickle.dumps(fit), [call] * n_calls, shares, {}, [])))
    found = probe_process._run(asked, time.perf_counter())
    return found, len(path.read_text().splitlines())


def test_quick_samples_are_all_tried_after_one_that_loads_what_is_needed(tmp_path):
    found, n_fits = probed(tmp_path)
    assert found.used == [1, 2, 3]
    assert n_fits == 1 + len(found.runs) == 4


def test_larger_samples_are_left_out_where_they_would_not_be_quick(tmp_path, monkeypatch):
    monkeypatch.setattr(probe_process, "QUICK_SECONDS", 0.005)
    assert probed(tmp_path)[0].used == [1, 2]


@pytest.mark.parametrize(("enough", "used"), [(0.0, [1]), (60.0, [1, 2, 3])])
def test_a_long_first_run_counts_and_may_be_enough(tmp_path, monkeypatch, enough, used):
    monkeypatch.setattr(probe_process, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(probe_process, "ENOUGH_SECONDS", enough)
    found, n_fits = probed(tmp_path)
    assert found.used == used
    assert n_fits == len(used)
    assert found.warm_up == 0.0


def test_a_probe_has_the_environment_that_workers_would_have(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    assert probing.heap_bytes() == 65536  # Dask's own
    with dask.config.set(
        {"distributed.nanny.pre-spawn-environ": {"MALLOC_TRIM_THRESHOLD_": 5, "DEPTH": None}}
    ):
        found = probing.worker_environment()
        assert probing.heap_bytes() == 5
    assert found["OMP_NUM_THREADS"] == "3"
    assert "DEPTH" not in found
