import itertools
import multiprocessing
import os
import signal
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier, Thread

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from distributed import Client, LocalCluster
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from dspectral import SketchedPCA, TruncatedSVD, projected_memory, summarize, write_counts
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine import (
    Blocks,
    blas,
    blas_in_one_thread,
    lazy_rows,
    map_rows,
    passes,
    row_blocks,
    run_tasks,
    tree_depth,
)
from dspectral.engine.merge_tree import merges_of
from tests.strategies import zipf_counts

N_BLOCKS, BLOCK_ROWS, N_COLUMNS = 7, 1100, 1200  # wider and longer than a Gram matrix is taken for
SIZES = (BLOCK_ROWS,) * N_BLOCKS
ESTIMATORS = {
    "frequent_directions": SketchedPCA(5, solver="frequent_directions", random_state=1),
    "krylov": TruncatedSVD(5, solver="krylov", n_passes=3, random_state=1),
}


def rows_of(block):
    return zipf_counts(BLOCK_ROWS, N_COLUMNS, 8, seed=block)


def lazy(read, sizes=SIZES, n_columns=N_COLUMNS, dtype=np.float32):
    """A Dask array of CSR blocks, each of them one call of ``read(number)``."""
    meta = sparse.csr_array((0, 0), dtype=dtype)
    return da.map_blocks(
        partial(call, read=read), chunks=(sizes, (n_columns,)), dtype=dtype, meta=meta, name=next(NAMES)
    )


NAMES = (f"load-{number}" for number in itertools.count())


def call(block_id, *, read):
    return read(block_id[0])


def kill_once(block, *, marker):
    """Kill the process that reads block 4, the first time."""
    if block == 4 and not Path(marker).exists():
        assert multiprocessing.parent_process() is not None
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return rows_of(block)


def one_by_one(n_rows, n_columns=2):
    """A Dask array of dense blocks of one row each: row i is i."""
    rows = np.repeat(np.arange(float(n_rows))[:, None], n_columns, axis=1)
    return da.from_array(rows, chunks=(1, n_columns))


def bits(fitted):
    parts = (fitted.components_, fitted.singular_values_, fitted.mean_, fitted.explained_variance_ratio_)
    return [part.tobytes() for part in parts] + [fitted.certificate_, fitted.energy_, fitted.n_passes_]


@pytest.fixture(scope="module", params=["Dask array", "store"])
def counts(request, tmp_path_factory):
    array = lazy(rows_of)
    if request.param == "Dask array":
        return array
    return write_counts(array, str(tmp_path_factory.mktemp("store") / "counts.zarr"))


@pytest.fixture(scope="module")
def expected():
    with dask.config.set(scheduler="sync"):
        return {name: bits(estimator.fit(lazy(rows_of))) for name, estimator in ESTIMATORS.items()}


@pytest.fixture(scope="module", params=["sync", "4 threads", "2 processes", "4 processes", "distributed"])
def scheduler(request):
    """Whatever can run a graph, in force while the tests of one parameter run."""
    number, kind = (
        (int(request.param[0]), request.param[2:]) if request.param[0].isdigit() else (0, request.param)
    )
    if kind == "sync":
        with dask.config.set(scheduler="sync"):
            yield
    elif kind == "threads":
        with dask.config.set(scheduler="threads", num_workers=number):
            yield
    elif kind == "processes":
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(number, context) as pool, dask.config.set(scheduler="processes", pool=pool):
            yield
    else:
        with cluster():
            yield


@contextmanager
def cluster():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL"
        ) as made,
        Client(made),
    ):
        yield


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_scheduler_gives_the_same_bits(scheduler, counts, name, expected):
    assert bits(ESTIMATORS[name].fit(counts)) == expected[name]


def test_a_killed_worker_changes_nothing(tmp_path, expected):
    with cluster():
        for name, estimator in ESTIMATORS.items():
            marker = tmp_path / name
            assert bits(estimator.fit(lazy(partial(kill_once, marker=str(marker))))) == expected[name]
            assert marker.exists()


def test_blocks_that_a_cluster_holds_already_are_taken_from_there(expected):
    with cluster():
        for name, estimator in ESTIMATORS.items():
            assert bits(estimator.fit(lazy(rows_of).persist())) == expected[name]


def test_rows_in_memory_stay_out_of_the_cluster_and_give_the_same_bits_as_the_same_blocks(monkeypatch):
    rows = sparse.csr_array(sparse.vstack([rows_of(0), rows_of(1)]))
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", rows.nnz * (4 + rows.indices.itemsize) - 1)
    assert lazy_rows(rows).chunks[0] == (BLOCK_ROWS, BLOCK_ROWS)
    for estimator in ESTIMATORS.values():
        alone = bits(estimator.fit(lazy(rows_of, SIZES[:2])))
        assert bits(estimator.fit(rows)) == alone
        with dask.config.set(scheduler=refuse_to_run):
            assert bits(estimator.fit(rows)) == alone


def refuse_to_run(*_, **__):
    raise AssertionError("rows in memory were sent elsewhere")


# What is read, when and how often


def unreadable(block):
    raise AssertionError(f"block {block} was read")


def test_nothing_is_computed_while_a_graph_is_built():
    X = lazy(unreadable)
    fitted = SketchedPCA(2).fit(np.random.default_rng(0).standard_normal((9, N_COLUMNS)))
    mapped = map_rows(X, np.negative, n_columns=N_COLUMNS, dtype=np.float32, sparse_output=True)
    projected = fitted.transform(mapped)
    assert (mapped.shape, mapped.dtype, mapped.chunks[0]) == (X.shape, np.float32, SIZES)
    assert (projected.shape, projected.dtype) == ((X.shape[0], 2), np.float64)
    with pytest.raises(AssertionError, match="was read"):
        projected.compute(scheduler="sync")


@pytest.mark.parametrize(
    ("solver", "n_passes", "reads"),
    [("frequent_directions", 4, 1), ("gram", 4, 1), ("nystrom", 4, 1), ("krylov", 1, 1), ("krylov", 4, 4)],
)
@pytest.mark.parametrize("estimator", [SketchedPCA, TruncatedSVD])
def test_each_block_is_read_as_often_as_the_solver_says(estimator, solver, n_passes, reads):
    seen = []

    def read(block):
        seen.append(block)
        return zipf_counts(40, 100, 8, seed=block)

    with dask.config.set(scheduler="sync"):
        fitted = estimator(2, solver=solver, n_passes=n_passes).fit(lazy(read, (40,) * 5, 100))
    assert Counter(seen) == dict.fromkeys(range(5), reads)
    assert fitted.n_passes_ == reads


class Tasks(Callback):
    """Counts tasks by group, and the results that wait at once."""

    def __init__(self):
        self.groups, self.most_waiting = Counter(), 0

    def _posttask(self, key, result, dsk, state, worker):
        name = key[0] if isinstance(key, tuple) else key
        self.groups[name.rsplit("-", 1)[0]] += 1
        self.most_waiting = max(self.most_waiting, len(state["cache"]))


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 5, 8, 9, 27])
@pytest.mark.parametrize("fan_in", [2, 3, 4])
def test_a_pass_is_one_task_a_block_and_the_merges_of_one_tree(n_blocks, fan_in):
    X = lazy(lambda block: sparse.csr_array([[1.0 + block]]), (1,) * n_blocks, 1, np.float64)
    weighed = map_rows(X, lambda rows: rows * 2, n_columns=1, sparse_output=True)
    expected, left = {"sketch-block": n_blocks}, n_blocks
    for level in range(1, tree_depth(n_blocks, fan_in) + 1):
        full, rest = divmod(left, fan_in)
        expected[f"merge-level-{level}"] = full + (rest > 1)
        left = full + (rest > 0)
    assert left == 1
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        found = summarize(weighed, of=Moments.of, fan_in=fan_in, name="sketch")
    assert tasks.groups == expected
    assert (
        merges_of(n_blocks, fan_in) == list(expected.values())[1:]
    )  # what those who watch are told beforehand
    assert found.total.tolist() == [n_blocks * (n_blocks + 1)]


@pytest.mark.parametrize("fan_in", [2, 4])
def test_no_more_summaries_wait_than_the_memory_law_says(fan_in):
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        summarize(one_by_one(64), of=Moments.of, fan_in=fan_in)
    # The rows in memory are one entry of the cache too.
    allowed = projected_memory(summary_bytes=1, n_blocks=64, work_bytes=0, fan_in=fan_in)
    assert tasks.most_waiting <= allowed + 1


def test_arrays_bound_to_a_function_are_in_the_graph_once(monkeypatch):
    graphs = []
    merge_tree = passes.merge_tree

    def noted(tasks, *rest):
        graphs.append(tasks)
        return merge_tree(tasks, *rest)

    monkeypatch.setattr(passes, "merge_tree", noted)
    X = lazy(lambda block: sparse.csr_array([[1.0 + block] * 300]), (1,) * 8, 300, np.float64)
    mapped = map_rows(X, partial(product, factor=np.eye(300)), n_columns=300)
    summarize(mapped, of=partial(GramProduct.of, factor=np.ones((300, 50))))
    for tasks, n_functions in ((dict(mapped.__dask_graph__()), 1), (*graphs, 2)):
        large = [key for key, node in tasks.items() if len(cloudpickle.dumps(node)) > 100_000]
        assert len(large) == n_functions == len(tasks) - 8


def product(rows, *, factor):
    return rows @ factor


class Order(tuple):
    """Which blocks were merged, in which order."""

    __slots__ = ()

    @classmethod
    def of(cls, rows):
        return cls([int(rows[0, 0])])

    def merge(self, *others):
        return Order(itertools.chain(self, *others))


@pytest.mark.parametrize("fan_in", [2, 3, 7])
def test_merges_keep_the_order_of_the_blocks(fan_in):
    with dask.config.set(scheduler="threads", num_workers=4):
        assert summarize(one_by_one(23), of=Order.of, fan_in=fan_in) == tuple(range(23))


def test_two_streams_arrive_block_by_block_together():
    def of(left, right):
        assert sparse.issparse(left)
        return Moments.of(np.hstack([left.toarray(), right]))

    left, right = lazy(rows_of, SIZES[:2]), da.ones((2 * BLOCK_ROWS, 3), chunks=(BLOCK_ROWS, 3))
    found = summarize(left, right, of=of)
    both = np.hstack([sparse.vstack([rows_of(0), rows_of(1)]).toarray(), np.ones((2 * BLOCK_ROWS, 3))])
    np.testing.assert_allclose(found.gram, both.T @ both)


def test_tasks_run_once_each_and_come_back_in_order(scheduler):
    assert run_tasks(abs, [-3, 2, -1], name="measure") == [3, 2, 1]
    assert run_tasks(abs, [], name="measure") == []


def test_the_task_group_is_the_name_given():
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        run_tasks(abs, [1, 2], name="measure-it")
        map_rows(one_by_one(3), abs, n_columns=2, name="turn").compute()
    assert tasks.groups["measure-it"] == 2
    assert tasks.groups["turn-block"] == 3


# What is refused


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (da.ones((6, 4), chunks=(3, 2)), r"cut into 2 column chunks, .* call X\.rechunk\(\{1: -1\}\) first"),
        (one_by_one(4)[da.ones(4, chunks=1) > 0], r"unknown size: call X\.compute_chunk_sizes\(\) first"),
        (da.ones((2, 2, 2)), r"expected a two-dimensional array, got 3 dimension\(s\)"),
        (np.ones(3), r"expected a two-dimensional array, got 1 dimension\(s\)"),
    ],
)
def test_rows_that_are_not_cut_into_known_whole_rows_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        summarize(X, of=Moments.of)
    with pytest.raises(ValueError, match=message):
        map_rows(X, abs, n_columns=4)


def test_what_is_no_array_is_refused_by_its_name():
    with pytest.raises(TypeError, match="a Dask array or a store, got list"):
        summarize([[1.0]], of=Moments.of)


def test_streams_cut_differently_are_refused():
    with pytest.raises(
        ValueError, match="the same row blocks, but they are 4 blocks of 4 rows and 2 blocks of 4"
    ):
        summarize(one_by_one(4), one_by_one(4).rechunk((2, 2)), of=Moments.of)


@pytest.mark.parametrize("fan_in", [1, 0, -2])
def test_a_merge_of_fewer_than_two_is_refused(fan_in):
    with pytest.raises(ValueError, match=f"fan_in is {fan_in}, but a merge takes at least 2"):
        summarize(np.ones((2, 2)), of=Moments.of, fan_in=fan_in)


def test_other_widths_are_refused_before_anything_is_read():
    fitted = SketchedPCA(2).fit(np.eye(7))
    for use in (fitted.transform, fitted.partial_fit):
        with pytest.raises(
            ValueError, match=f"X has {N_COLUMNS} features, but SketchedPCA is expecting 7 features"
        ):
            use(lazy(unreadable))


@pytest.mark.parametrize("make", [sparse.csr_array, np.asarray])
def test_an_error_in_a_block_begins_with_its_number(make):
    def read(block):
        return make([[1.0, np.nan if block == 2 else 2.0]])

    X = lazy(read, (1,) * 4, 2, np.float64)
    message = "row block 2: row 0, column 1 is nan, but every entry must be finite"
    for solver in ("frequent_directions", "gram", "nystrom", "krylov"):
        with pytest.raises(ValueError, match=message):
            SketchedPCA(1, solver=solver).fit(X)
    with pytest.raises(ValueError, match="row block 2: no"):
        map_rows(X, partial(refuse_nan), n_columns=2).compute()


def refuse_nan(rows):
    if np.isnan(rows.sum()):
        raise ValueError("no")
    return rows


# BLAS


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    blas._take_control_of_blas()  # a thread of another test may have had it
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
        return Watching.of(rows)

    with dask.config.set(scheduler="threads", num_workers=2):
        summarize(one_by_one(4), of=of)
        run_tasks(lambda _: seen.append(blas_threads()), [1, 2], name="look")
        map_rows(np.ones((2, 2)), lambda rows: (seen.append(blas_threads()), rows)[1], n_columns=2)
    assert seen == [{1}] * (4 + 3 + 2 + 1)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_stays_at_one_thread_until_the_last_of_several_tasks_leaves():
    step, seen = Barrier(2, timeout=30), []

    def first():
        with blas_in_one_thread():
            step.wait()  # both are inside
            step.wait()
        step.wait()  # only the second is

    def second():
        with blas_in_one_thread():
            step.wait()
            step.wait()
            step.wait()
            seen.append(blas_threads())

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{1}]
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_gets_its_threads_back_from_another_thread_than_the_one_that_took_them():
    step = Barrier(2, timeout=30)

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


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_gets_its_threads_back_after_an_error():
    with pytest.raises(ZeroDivisionError), blas_in_one_thread():
        raise ZeroDivisionError
    assert blas_threads() == {2}


def moments_of_numbers(numbers):
    return Moments.of(np.asarray(numbers, dtype=float).reshape(-1, 1))


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_blocks_of_anything_are_read_and_summarised_by_one_task_each(scheduler):
    blocks, tasks = Blocks(partial(range, 1), [2, 3, 1, 5, 4]), Counter()
    count = Callback(posttask=lambda key, *_: tasks.update([str(key).partition("-block")[0]]))
    with dask.config.set(scheduler=scheduler), count:
        summary = summarize(blocks, of=moments_of_numbers, name="numbers")
    assert summary.n_rows == 1 + 2 + 0 + 4 + 3
    assert summary.gram == [[1 + (1 + 4) + (1 + 4 + 9 + 16) + (1 + 4 + 9)]]
    assert tasks["('numbers"] == 5


def test_blocks_may_ride_beside_rows():
    X = np.arange(6.0).reshape(3, 2)
    summary = summarize(
        Blocks(float, ["2"], in_memory=True), X[:1], of=lambda scale, rows: Moments.of(scale * rows)
    )
    assert summary.gram.tolist() == [[0.0, 0.0], [0.0, 4.0]]


def test_no_blocks_are_an_error():
    with pytest.raises(ValueError, match="no block"):
        summarize(Blocks(int, []), of=moments_of_numbers)


def test_a_block_that_cannot_be_summarised_is_named():
    with pytest.raises(ValueError, match="row block 1: could not convert"):
        summarize(Blocks(list, ["12", "1x"]), of=moments_of_numbers)
