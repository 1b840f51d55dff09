"""BLAS has one thread inside tasks, and gets its own back when the last of them leaves."""

import os
import signal
from threading import Barrier, Thread, get_ident

import dask
import dask.array as da
import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dspectral import HybridLSI, SketchedPCA, TruncatedSVD, summarize
from dspectral.engine import map_rows, run_tasks
from dspectral.linalg import blas, blas_in_one_thread
from dspectral.linalg.panels import PANEL, sum_panels
from tests.engine.blocks import Order, one_by_one


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    blas._reset_controlling_thread()  # a thread of another test may have had it
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot use two threads")
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_inside_tasks_and_gets_its_own_back():
    seen = []

    class Watching(Order):
        def merge(self, *others):
            seen.append(blas_threads())
            return self

    def of(rows):
        seen.append(blas_threads())
        return Watching.from_block(rows)

    with dask.config.set(scheduler="threads", num_workers=2):
        summarize(one_by_one(4), summarize_block=of)
        run_tasks(lambda _: seen.append(blas_threads()), [1, 2], name="look")
        map_rows(np.ones((2, 2)), lambda rows: (seen.append(blas_threads()), rows)[1], n_columns=2)
    assert seen == [{1}] * (4 + 3 + 2 + 1)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_until_the_last_task_exits_in_any_thread():
    step = Barrier(2, timeout=300)

    def first():
        with blas_in_one_thread():
            step.wait()  # both are inside
        step.wait()  # this one is out, and lives on
        step.wait()

    thread = Thread(target=first)
    thread.start()
    with blas_in_one_thread():
        step.wait()
        step.wait()
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    step.wait()
    thread.join()


MODELS = [
    SketchedPCA(20, solver="gram"),
    SketchedPCA(20, solver="frequent_directions"),
    TruncatedSVD(20, solver="krylov"),
    TruncatedSVD(20, solver="nystrom"),
    HybridLSI(20, alpha=0.3),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_bits_of_a_model_do_not_depend_on_the_number_of_blas_threads(model):
    rng = np.random.default_rng(0)
    rows = rng.poisson(0.5, (1500, 600)).astype(float)
    labels = np.arange(1500) % 5
    digests = set()
    for n_threads in (1, 2, 4):
        with threadpool_limits(n_threads, user_api="blas"):
            digests.add(joblib.hash(vars(model.fit(rows, labels))))
    assert len(digests) == 1


def test_a_process_that_was_forked_after_a_fit_fits_by_threads_of_its_own():
    X = da.random.default_rng(0).random((40, 5), chunks=(10, -1))
    with dask.config.set(scheduler="threads"):
        SketchedPCA(2).fit(X)
        child = os.fork()
        if not child:
            signal.alarm(60)
            try:
                SketchedPCA(2).fit(X)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("two_blas_threads")
def test_panels_between_passes_are_computed_in_threads_with_the_same_bits():
    rows, seen = np.random.default_rng(0).standard_normal((3 * PANEL + 5, 4), dtype=np.float32), set()

    def products(panels):
        for panel in panels:
            seen.add(get_ident())
            yield rows[panel].T @ rows[panel]

    with blas_in_one_thread():  # a fit
        threaded = sum_panels(products, (4, 4), len(rows))
        assert get_ident() not in seen
        with blas_in_one_thread():  # a pass
            np.testing.assert_array_equal(sum_panels(products, (4, 4), len(rows)), threaded)
    assert get_ident() in seen
