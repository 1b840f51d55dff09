import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Nanny

import dspectral
from dspectral import ClusterError
from dspectral.engine import run
from dspectral.engine.around import cluster as machines

ODD = {"OPENBLAS_CORETYPE": "Prescott", "NUMBA_CPU_NAME": "generic"}
"""A machine of another kind, as far as results can tell: older kernels of BLAS, and other loops of Numba."""


@pytest.fixture
def rows():
    return da.from_array(np.random.default_rng(0).standard_normal((400, 60)), chunks=(50, 60))


def fitted(rows):
    return dspectral.TruncatedSVD(3, solver="frequent_directions").fit(rows)


def raise_import_error():
    raise ModuleNotFoundError("No module named 'dspectral'", name="dspectral")


@pytest.mark.slow
def test_other_worker_is_named_once_and_refused_if_bits_are_required(rows, monkeypatch):
    monkeypatch.setattr(machines, "COMPARISON_SECONDS", 0.0)
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            fitted(rows)
            with dask.config.set({"dspectral.same-bits": True}):
                alike = fitted(rows)
        nanny = client.sync(started, client.scheduler.address)
        try:
            client.wait_for_workers(2)
            with pytest.warns(RuntimeWarning, match=r"BLAS is .* on tcp\S+.* on the 2 others.*Numba"):
                unlike = fitted(rows)
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # it was said
                fitted(rows)
            with (
                dask.config.set({"dspectral.same-bits": True}),
                pytest.raises(ClusterError, match=r"dspectral\.same-bits.*true.*Numba.*tcp"),
            ):
                fitted(rows)
        finally:
            client.sync(nanny.close)
    np.testing.assert_allclose(alike.singular_values_, unlike.singular_values_, rtol=1e-10)


async def started(address):
    return await Nanny(address, nthreads=1, env=ODD, dashboard=False)


@pytest.mark.parametrize("differs", ["BLAS", "source of dspectral"])
def test_a_worker_that_joins_later_computes_nothing_where_it_differs(differs, rows, monkeypatch):
    own = machines.numeric_environment()
    monkeypatch.setattr(run, "compare_machines", lambda _client: None)  # it was not there
    monkeypatch.setattr(
        machines, "numeric_environment", lambda: own | ({differs: "odd"} if run.is_in_worker_task() else {})
    )
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
        fitted(rows)
        with (
            dask.config.set({"dspectral.same-bits": True}),
            pytest.raises(ClusterError, match=f"same-bits.*true.*{differs}.*odd"),
        ):
            fitted(rows)


def test_a_worker_without_a_package_is_named_before_anything_is_computed(rows, monkeypatch):
    monkeypatch.setattr(machines, "numeric_environment", raise_import_error)
    with (
        Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"),
        pytest.raises(ClusterError, match=r"inproc\S*.*dspectral"),
    ):
        fitted(rows)
