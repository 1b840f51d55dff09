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
from dspectral.linalg import blas

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


def test_machines_that_are_alike_are_asked_once_and_said_nothing_of(rows, monkeypatch):
    asked = []
    with (
        Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client,
        warnings.catch_warnings(),
        dask.config.set({"dspectral.same-bits": True}),
    ):
        warnings.simplefilter("error", RuntimeWarning)
        run = client.run
        monkeypatch.setattr(client, "run", lambda *words, **options: asked.append(words) or run(*words, **options))
        for _ in range(3):
            fitted(rows)
    assert len(asked) == 1


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


def test_a_checkout_of_other_source_differs(monkeypatch):
    machines.numeric_environment.cache_clear()
    before = machines.numeric_environment()
    machines.numeric_environment.cache_clear()
    monkeypatch.setattr(blas, "source_hash", lambda: "0" * 32)
    assert next(iter(before.items() ^ machines.numeric_environment().items()))[0] == "source of dspectral"
    machines.numeric_environment.cache_clear()


def test_a_worker_without_a_package_is_named_before_anything_is_computed(rows, monkeypatch):
    monkeypatch.setattr(machines, "numeric_environment", raise_import_error)
    with (
        Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"),
        pytest.raises(ClusterError, match=r"inproc\S*.*dspectral"),
    ):
        fitted(rows)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"a": "x", "b": "x"}, ""),
        ({"a": "x", "b": "y", "c": "y"}, "BLAS is x on a, and y on the 2 others"),
        ({"a": "x", "b": "y"}, "BLAS is y on b, and x on the other"),
        (
            {"a": "x"} | dict.fromkeys("bcdefg", "y") | dict.fromkeys("hijkl", "z"),
            "BLAS is z on h, i, j and 2 more, x on a, and y on the 6 others",
        ),
    ],
)
def test_who_differs_from_most_is_named(kinds, message):
    assert (
        machines.describe_differences({name: {"BLAS": kind, "machine": "m"} for name, kind in kinds.items()}) == message
    )


def test_neighboring_blocks_prefer_one_worker_after_annotations(rows, monkeypatch):
    annotations = []

    def compute(client, pass_info, graph, *arguments, **options):
        annotations.append(graph.__dask_annotations__())
        return compute_on_cluster(client, pass_info, graph, *arguments, **options)

    compute_on_cluster = run.compute_on_cluster
    monkeypatch.setattr(run, "compute_on_cluster", compute)
    alone = fitted(rows)
    with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        assert machines.assign_workers(client, range(3)).keys() == {0, 1, 2}
        together = fitted(rows)
        with dask.annotate(retries=1):
            fitted(rows)
        addresses = sorted(client.nthreads())
    np.testing.assert_array_equal(together.components_, alone.components_)
    workers = {key[1]: worker for key, worker in annotations[0]["workers"].items() if worker is not None}
    assert [workers[i] for i in sorted(workers)] == [address for address in addresses for _ in range(len(workers) // 2)]
    assert len(workers) >= 2
    assert annotations[0].keys() == {"workers", "allow_other_workers"}
    assert annotations[1].keys() == {"retries"}
