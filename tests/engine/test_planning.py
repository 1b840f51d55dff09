"""Plans of fits, and the refusal of what cannot fit in memory."""

import json
import sys
from collections import Counter
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from scipy import sparse

import dspectral
from dspectral import RunPlan, SketchedPCA, TreePCA, TruncatedSVD, build_store, write_counts
from dspectral.decomposition import FrequentDirections
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.random_range import RandomRange
from dspectral.engine import summarize
from dspectral.engine.planning.fresh_process import new_worker
from dspectral.engine.planning.phases import phases_of
from dspectral.engine.planning.recording import PassRecord, RunRecord, Took, recorded
from dspectral.engine.planning.refusing import refusal_of
from dspectral.engine.planning.scales import POWERS, Machines, Scale, along, expected
from dspectral.engine.planning.whole_tree import Tree
from dspectral.engine.summary import BlockSize
from tests.engine.rows import rows_of
from tests.probes import forked_probes, nothing_left

MB = 1_000_000


def record(leaf: Took, merges: list[Took], *, fan_in: int = 2, n_blocks: int = 4) -> RunRecord:
    tasks = [leaf] * n_blocks + merges
    one = PassRecord(
        "sketch", n_blocks, fan_in, True, None, tasks=tasks, seconds=sum(t.seconds for t in tasks)
    )
    return RunRecord([one], seconds=one.seconds)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    counts = sparse.random_array((400, 60), density=0.1, rng=np.random.default_rng(0), format="csr")
    return write_counts(
        counts.astype(np.float32), str(tmp_path_factory.mktemp("plan") / "c.zarr"), block_rows=50
    )


@pytest.fixture(scope="module")
def planned(store, tmp_path_factory):
    """A plan of which all processes are new ones; elsewhere they are forked."""
    with nothing_left(tmp_path_factory.mktemp("temporary")):
        return TruncatedSVD(3, solver="krylov", n_passes=3).plan(store, workers=2, memory_limit="2 GB")


def test_a_plan_says_passes_tasks_bytes_memory_and_time_as_the_fit_then_has_them(store, planned):
    model = TruncatedSVD(3, solver="krylov", n_passes=3).fit(store)
    assert planned.n_passes == model.n_passes_
    assert planned.n_tasks == 3 * (8 + 7)
    assert planned.bytes_read == 3 * store.n_bytes
    assert planned.bytes_sent > 0
    assert 100 * MB < planned.worker_memory < 2000 * MB
    assert planned.seconds > 0
    assert planned.refusal == ""


def test_a_plan_is_read_by_persons_notebooks_and_programs(planned):
    assert "product" in str(planned)
    assert "peak memory of a worker" in str(planned)
    assert "Plan of TruncatedSVD" in planned._repr_html_()
    content = planned.as_dict()
    assert content["n_tasks"] == planned.n_tasks
    assert content["phases"][0]["name"] == "product"
    assert json.loads(json.dumps(content)) == content


def test_a_plan_that_does_not_fit_names_memory_what_is_there_and_a_sketch_that_would(planned):
    estimator = TruncatedSVD(3, n_passes=3, sketch_size=400)
    large = planned.phases[0]._replace(memory=900 * MB)
    tight = replace(planned, phases=[large], worker_memory=1200 * MB, memory_limit=1000 * MB)
    said = refusal_of(tight, estimator)
    assert "memory" in said
    assert "1.2 GB" in said
    assert "1.0 GB" in said
    size = int(said.rpartition("sketch_size=")[2].split()[0])
    assert 300 * MB + 900 * MB * size / 400 <= 0.85 * 1000 * MB
    assert "memory_limit='1420MB'" in said
    assert refusal_of(replace(tight, memory_limit=1420 * MB), estimator) == ""
    with pytest.raises(MemoryError, match="does not fit in memory"):
        replace(tight, refusal=said).check()


def test_a_build_is_planned_and_builds_nothing(tmp_path):
    (tmp_path / "temporary").mkdir()
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat on the mat\n" * 2000, encoding="utf-8")
    with forked_probes(), nothing_left(tmp_path / "temporary"):
        plan = dspectral.plan(
            build_store, str(path), str(tmp_path / "never.zarr"), block_bytes=8000, workers=1
        )
    assert [phase.name for phase in plan.phases] == ["hash-block"]
    assert plan.bytes_read == path.stat().st_size
    assert plan.n_blocks == -(-plan.bytes_read // 8000)
    assert not (tmp_path / "never.zarr").exists()


def test_what_fit_refuses_its_plan_refuses_with_the_same_sentence():
    with forked_probes(), pytest.raises(ValueError, match="n_components is 99, but X has only 40"):
        SketchedPCA(99).plan(rows_of(3))


def test_a_record_has_every_task_with_its_bytes():
    with dask.config.set(scheduler="sync"), recorded() as run:
        summarize(rows_of(4), of=Moments.of, name="gram")
    (one,) = run.passes
    assert [task.level for task in one.tasks] == [0, 0, 1, 0, 0, 1, 2]
    assert all(task.result > 8 * 40 * 40 for task in one.tasks)


def test_a_tree_of_dense_summaries_keeps_their_size_and_one_of_growing_ones_their_growth():
    dense = record(Took(0, 1.0, 10, 100), [Took(1, 0.5, 100, 100)] * 2 + [Took(2, 0.5, 100, 100)])
    tree = Tree.of(dense.passes[0], 100, 64, 2)
    assert tree.counts == [32, 16, 8, 4, 2, 1]
    assert set(tree.sizes) == {100}
    growing = record(Took(0, 1.0, 10, 100), [Took(1, 0.5, 100, 200)] * 2 + [Took(2, 0.5, 100, 400)])
    assert Tree.of(growing.passes[0], 100, 64, 2).sizes == [100, 200, 400, 800, 1600, 3200, 6400]


def test_time_falls_with_workers_and_memory_with_their_share_of_the_tree():
    run = record(
        Took(0, 1.0, 100 * MB, 50 * MB),
        [Took(1, 0.1, 50 * MB, 50 * MB)] * 2 + [Took(2, 0.1, 50 * MB, 50 * MB)],
    )
    scale = Scale(64, (4,), (4 / 64,))
    (one,) = phases_of([run], scale, Machines(1, 1, 2), None)
    (four,) = phases_of([run], scale, Machines(4, 1, 2), None)
    assert one.n_blocks == four.n_blocks == 64
    assert one.n_merges == 63
    assert one.seconds == pytest.approx(64 + 6.3, rel=0.05)
    assert one.seconds / 4 < four.seconds < one.seconds / 3
    # Six levels of waiting summaries on one worker, four on each of four, and the task that runs.
    assert one.memory == pytest.approx(6 * 50 * MB + 100 * MB)
    assert four.memory == pytest.approx(4 * 50 * MB + 100 * MB)


def test_a_worker_holds_what_the_scheduler_fetches_for_the_client_three_times():
    run = record(Took(0, 1.0, MB, MB), [Took(1, 0.1, MB, 2 * MB)] * 2 + [Took(2, 0.1, MB, 4 * MB)])
    scale = Scale(32, (4,), (4 / 32,))
    (threads,) = phases_of([run], scale, Machines(0, 1, 2), None)
    (near,) = phases_of([run], scale, Machines(1, 1, 2), None)
    (far,) = phases_of([run], scale, Machines(1, 1, 2, are_near=False), None)
    assert near.summary_bytes == far.summary_bytes == 32 * MB
    assert threads.memory == near.memory < far.memory == 3 * 32 * MB
    assert (near.bytes_sent, far.bytes_sent) == (32 * MB, 2 * 32 * MB)


def test_half_of_the_merges_of_two_workers_wait_for_a_summary_of_the_other():
    run = record(Took(0, 1.0, MB, MB), [Took(1, 0.1, MB, MB)] * 2 + [Took(2, 0.1, MB, MB)])
    scale = Scale(16, (4,), (4 / 16,))
    quick, slow = (
        phases_of([run], scale, Machines(2, 1, 2, byte_seconds=seconds), None)[0] for seconds in (0.0, 1e-6)
    )
    assert quick.bytes_sent == (15 / 2 + 1) * MB
    assert slow.seconds - quick.seconds == pytest.approx((15 / 2 + 1) * MB * 1e-6 / 2)


def test_the_last_merge_takes_no_more_than_what_there_is():
    run = record(Took(0, 1.0, 0, MB), [Took(1, 0.0, 0, 2 * MB)] * 2 + [Took(2, 0.0, 0, 4 * MB)])
    tree = Tree.of(run.passes[0], MB, 34, 2)
    assert tree.sizes == [MB, 2 * MB, 4 * MB, 8 * MB, 16 * MB, 32 * MB, 34 * MB]
    assert tree.last == 34 * MB


def leaves_behind(rows):
    """Return a summary of rows, and leave 320 MB in memory, as libraries and compiled loops do."""
    sys.left_by_a_test = np.ones(40_000_000)
    return Moments.of(rows)


def test_what_the_first_tasks_leave_behind_counts_for_a_new_worker_however_large_their_graph_is():
    large = da.from_array(np.ones((60, 4000)), chunks=(30, -1))  # more than a command line takes
    with dask.config.set(scheduler="sync"), recorded(keeps_graphs=True) as run:
        summarize(large[:, ::100], of=leaves_behind, name="gram")
    assert list(run.graphs) == ["gram"]
    assert len(run.graphs["gram"]) > 1 << 17
    found = new_worker((), run.graphs)
    assert found.bare > 10 * MB
    assert found.working > 320 * MB


def test_what_does_not_grow_with_the_sample_is_not_extended():
    assert along(Scale(10, (2, 4), (0.2, 0.4)), (3.0, 3.0)) == 3.0
    assert along(Scale(10, (2, 4), (0.2, 0.4)), (3.0, 2.0)) == 2.0
    assert along(Scale(10, (2, 4), (0.2, 0.4)), (2.0, 4.0)) == pytest.approx(10.0)


@pytest.mark.parametrize("power", [0.5, 0.75, 1.0])
def test_three_samples_say_along_which_power_of_the_data_a_time_grows(power):
    scale = Scale(100, (2, 4, 8), (0.02, 0.04, 0.08))
    times = [0.3 + 5.0 * weight**power for weight in scale.weights]
    assert expected(scale, times) == pytest.approx(5.3)
    assert expected(scale, times[::-1]) == times[0]  # never less than the largest sample
    two = Scale(100, (2, 4), (0.02, 0.04))
    assert expected(two, times[:2]) == pytest.approx(along(two, times[:2]))
    assert expected(two, times[:2], usual_power=power) == pytest.approx(5.3)


def test_under_noise_every_power_that_may_be_meant_counts():
    scale = Scale(100, (2, 4, 8), (0.02, 0.04, 0.08))
    times = [0.3 + 5.0 * weight for weight in scale.weights]
    ends = []
    for power in POWERS:
        grown = np.power(scale.weights, power)
        slope, level = np.polyfit(grown, times, 1)
        ends.append(level + slope)
    assert expected(scale, times, noise=1e3) == pytest.approx(np.mean(ends))
    assert expected(scale, times) == pytest.approx(ends[-1]) != pytest.approx(ends[0])


def test_a_probe_goes_the_way_of_the_whole_where_only_the_probe_would_fit_in_memory():
    rows = da.random.default_rng(0).standard_normal((960, 16, 4), chunks=(60, -1, -1))
    with dask.config.set({"dspectral.memory-limit": "100 kB"}):
        with forked_probes():
            plan = dspectral.plan(TreePCA(n_components=4, length=16), rows)
        with dask.config.set(scheduler="sync"), recorded() as run:
            TreePCA(n_components=4, length=16).fit(rows)
        with dask.config.set(scheduler="sync"), recorded() as sample:
            TreePCA(n_components=4, length=16).fit(rows[:120])
    names = [one.name for one in run.passes]
    assert names != [one.name for one in sample.passes]
    assert {phase.name: phase.n_times for phase in plan.phases} == Counter(names)


def test_a_fit_that_cannot_fit_is_refused_before_a_block_is_read_and_fits_where_it_says():
    read = []

    def one_block(block):
        read.append(len(block))
        return block

    X = rows_of(4, 20_000).map_blocks(one_block, meta=np.empty((0, 0)))
    model = SketchedPCA(60, solver="frequent_directions")
    here = {"scheduler": "sync"}
    with dask.config.set({"dspectral.worker-memory": "100 MB", **here}):
        with pytest.raises(
            MemoryError, match="SketchedPCA does not fit in memory: this process needs"
        ) as refused:
            model.fit(X)
        assert read == []
    there = str(refused.value).partition("may have ")[2].split()[0]
    with dask.config.set({"dspectral.worker-memory": there, **here}):
        model.fit(X)
    assert len(read) >= 4


def test_admission_can_be_switched_off():
    with dask.config.set(
        {"dspectral.worker-memory": "100 MB", "dspectral.admission": False, "scheduler": "sync"}
    ):
        assert SketchedPCA(2, solver="gram").fit(rows_of(2, 2000)).n_passes_ == 1


def test_workers_whose_limit_is_too_low_are_refused_with_the_limit_that_would_do():
    X = rows_of(4, 20_000)
    model = SketchedPCA(200, solver="frequent_directions")
    said = r"a worker needs .* with memory_limit='\d+MB' it fits"
    how = {"threads_per_worker": 1, "processes": False, "memory_limit": "300MB", "dashboard_address": ":0"}
    with Client(n_workers=1, **how), pytest.raises(MemoryError, match=said):
        model.fit(X)


@pytest.mark.parametrize("summary", ["sketch", "gram", "product", "range"])
def test_what_a_summary_says_that_it_needs_is_what_it_holds(summary):
    rows = np.random.default_rng(0).standard_normal((300, 500))
    factor = np.ones((500, 20))
    of, bound = {
        "sketch": (FrequentDirections.of, {"size": 50}),
        "gram": (Moments.of, {}),
        "product": (GramProduct.of, {"factor": factor}),
        "range": (RandomRange.of, {"size": 30}),
    }[summary]
    need = of.__self__.needs(BlockSize(300, 500, 8, False), **bound)
    held = sum(field.nbytes for field in of(rows, **bound) if isinstance(field, np.ndarray))
    assert held == need.summary <= need.work


def test_the_example_of_a_plan_in_threads_counts_this_process():
    with forked_probes():
        plan = SketchedPCA(2).plan(np.random.default_rng(0).standard_normal((500, 8)))
    assert isinstance(plan, RunPlan)
    assert plan.n_workers == 0
    assert plan.worker_memory == plan.client_memory
    assert "threads of this process" in str(plan)
