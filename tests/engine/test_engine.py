"""Passes over blocks give the same bits under every scheduler, and each block is read as often as is said."""

import traceback
from collections import Counter
from functools import partial
from operator import attrgetter
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from scipy import sparse

import dspectral
from dspectral import MomentMultiLabelClassifier, SketchedPCA, TruncatedSVD, summarize, write_counts
from dspectral.datasets import sample_labeled_documents
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine import (
    Blocks,
    as_dask_rows,
    blocks,
    map_rows,
    run,
    run_tasks,
)
from dspectral.methods.multilabel.summaries import FirstMoments
from tests.engine.blocks import (
    BLOCK_ROWS,
    N_COLUMNS,
    SIZES,
    Tasks,
    kill_once,
    lazy,
    one_by_one,
    rows_of,
    unreadable,
)
from tests.engine.recording import bits
from tests.schedulers import scheduled
from tests.strategies import zipf_counts

ESTIMATORS = {  # whose summaries are so small that no blocks of a store are joined
    "frequent_directions": SketchedPCA(5, sketch_size=12, solver="frequent_directions", random_state=1),
    "krylov": TruncatedSVD(5, solver="krylov", n_passes=3, random_state=1),
}


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


SLOW = pytest.param("distributed", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=["4 threads", "2 processes", SLOW])
def scheduler(request):
    """Whatever can run a graph, in force while the tests of one parameter run."""
    number, _, kind = request.param.rpartition(" ")
    with scheduled(kind, int(number or 2)):
        yield


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_scheduler_gives_the_same_bits(scheduler, counts, name, expected):
    assert bits(ESTIMATORS[name].fit(counts)) == expected[name]


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path, expected):
    with scheduled("distributed"):
        for name, estimator in ESTIMATORS.items():
            marker = tmp_path / name
            assert bits(estimator.fit(lazy(partial(kill_once, marker=str(marker))))) == expected[name]
            assert marker.exists()


@pytest.mark.slow
def test_blocks_that_a_cluster_holds_already_are_taken_from_there(expected):
    with scheduled("distributed"):
        for name, estimator in ESTIMATORS.items():
            assert bits(estimator.fit(lazy(rows_of).persist())) == expected[name]


def test_rows_in_memory_stay_local_and_are_bit_identical_to_blocks(monkeypatch):
    rows = sparse.csr_array(sparse.vstack([rows_of(0), rows_of(1)]))
    monkeypatch.setattr(blocks, "BLOCK_BYTES", rows.nnz * (4 + rows.indices.itemsize) - 1)
    assert as_dask_rows(rows).chunks[0] == (BLOCK_ROWS, BLOCK_ROWS)
    for estimator in ESTIMATORS.values():
        alone = bits(estimator.fit(lazy(rows_of, SIZES[:2])))
        assert bits(estimator.fit(rows)) == alone
        with dask.config.set(scheduler=refuse_to_run):
            assert bits(estimator.fit(rows)) == alone


def refuse_to_run(*_, **__):
    raise AssertionError("rows in memory were sent elsewhere")


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
    [("frequent_directions", 4, 1), ("gram", 4, 1), ("krylov", 1, 1), ("krylov", 4, 4)],
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


def test_arrays_bound_to_a_function_are_in_the_graph_once(monkeypatch):
    graphs = []
    add_retries = run.add_retries

    def noted(tasks):
        graphs.append(tasks)
        return add_retries(tasks)

    monkeypatch.setattr(run, "add_retries", noted)
    X = lazy(lambda block: sparse.csr_array([[1.0 + block] * 300]), (1,) * 8, 300, np.float64)
    mapped = map_rows(X, partial(product, factor=np.eye(300)), n_columns=300)
    summarize(mapped, summarize_block=partial(GramProduct.from_block, factor=np.ones((300, 50))))
    for tasks, n_functions, n_merges in zip(graphs, (1, 2), (0, 7), strict=True):
        large = [key for key, node in tasks.items() if len(cloudpickle.dumps(node)) > 100_000]
        assert len(large) == n_functions == len(tasks) - 8 - n_merges


def product(rows, *, factor):
    return rows @ factor


def test_tasks_run_once_each_and_come_back_in_order(scheduler):
    assert run_tasks(abs, [-3, 2, -1], name="measure") == [3, 2, 1]
    assert run_tasks(abs, [], name="measure") == []


def test_the_task_group_is_the_name_given():
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        run_tasks(abs, [1, 2], name="measure-it")
        map_rows(one_by_one(3), abs, n_columns=2, name="turn").compute()
    assert tasks.groups["measure-it"] == 2
    assert tasks.groups["turn-block"] == 3


def moments_of_numbers(numbers):
    return Moments.from_block(np.asarray(numbers, dtype=float).reshape(-1, 1))


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_blocks_of_anything_are_read_and_summarised_by_one_task_each(scheduler):
    blocks, tasks = Blocks(partial(range, 1), [2, 3, 1, 5, 4]), Counter()
    count = Callback(posttask=lambda key, *_: tasks.update([str(key).partition("-block")[0]]))
    with scheduled(scheduler), count:
        summary = summarize(blocks, summarize_block=moments_of_numbers, name="numbers")
    assert summary.n_rows == 1 + 2 + 0 + 4 + 3
    assert summary.gram == [[1 + (1 + 4) + (1 + 4 + 9 + 16) + (1 + 4 + 9)]]
    assert tasks["('numbers"] == 5


def test_blocks_may_ride_beside_rows():
    X = np.arange(6.0).reshape(3, 2)
    summary = summarize(
        Blocks(float, ["2"], in_memory=True),
        X[:1],
        summarize_block=lambda scale, rows: Moments.from_block(scale * rows),
    )
    assert summary.gram.tolist() == [[0.0, 0.0], [0.0, 4.0]]
    with pytest.raises(ValueError, match=r"Blocks.*no items"):
        summarize(Blocks(int, []), summarize_block=moments_of_numbers)


@pytest.mark.parametrize(
    ("kind", "estimator", "steps"),
    [
        (FirstMoments, MomentMultiLabelClassifier(3), ["first_pass"]),
        (Moments, SketchedPCA(3), ["spectrum"]),
        (Moments, SketchedPCA(0.5), ["spectrum"]),
        (GramProduct, TruncatedSVD(3, solver="krylov", n_passes=1), ["spectrum", "krylov_spectrum"]),
    ],
)
def test_debugger_in_a_summary_shows_at_most_seven_own_frames(kind, estimator, steps, monkeypatch):
    """Of the engine there are four; the estimator and its steps are the others."""
    stacks, package, of = [], str(Path(dspectral.__file__).parent), kind.from_block

    def stops(_kind, *arguments, **keywords):
        stacks.append([frame.name for frame in traceback.extract_stack() if frame.filename.startswith(package)])
        return of(*arguments, **keywords)

    monkeypatch.setattr(kind, "from_block", classmethod(stops))
    words, labels, _ = sample_labeled_documents(400, n_words=60, n_labels=12, n_states=3, seed=0)
    rows = da.from_array(words.toarray(), chunks=(100, -1))
    with dask.config.set(scheduler="sync"):
        estimator.fit(rows, labels)
    expected = ["call_and_emit", "fit", *steps, "summarize", "call_with_retries", "call_on_blocks"]
    assert stacks == [expected] * rows.numblocks[0]


def test_the_last_task_of_a_pass_gets_the_summary_of_all_rows(counts, tmp_path):
    for _ in range(2):  # without checkpoints, and with the one that the first turn wrote
        for checkpoints in (None, str(tmp_path)):
            with Tasks() as tasks, dask.config.set(scheduler="sync"):
                actual = summarize(
                    counts if checkpoints is None else as_dask_rows(counts).compute(),
                    summarize_block=Moments.from_block,
                    finish=("count", attrgetter("n_rows")),
                    checkpoints=checkpoints,
                )
            assert actual == sum(SIZES)
            assert tasks.groups["count"] == 1
