"""Hold the simulated tree of `benchmarks.tree_simulation` against real clusters, whose tasks sleep as they are told.

First the scheduler's CPU seconds for each task are measured: it has a process of its own, and any number of workers
share another. Then passes of known lengths run on workers of this machine, and in crowds; the simulation gets
the same lengths, and the table says by how much it is off. Last, a worker is killed with -9 half-way, and what was done
again is counted. Tasks that sleep need no processor, so that two of them are enough for many workers.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Client, LocalCluster

from .._form import form
from .._form.plots import new_plot
from ._tree.crowd import crowd
from ._tree.events import simulate
from ._tree.naps import Slept, sleep_through
from ._tree.settings import Outcome, Settings, tree_of


class Costs(NamedTuple):
    """What a cluster costs for each task.

    `scheduler_seconds`: CPU seconds of the scheduler; `overhead_seconds`: the rest of the time from one task
    to the next on one worker; `start_seconds`: until the first task begins, for each task of the graph;
    `latency`: half of what a task takes longer whose input is on another worker.
    """

    scheduler_seconds: float
    overhead_seconds: float
    start_seconds: float
    latency: float


def main(argv: list[str] | None = None) -> None:
    """Measure, then compare."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, dask.config.set({"distributed.scheduler.worker-saturation": 1.0}):
        if run.client is not None:
            raise ValueError("tree_trials starts clusters of its own: leave out --workers and --scheduler")
        with run.measure("costs of a task"):
            costs = costs_of(arguments)
        for metric, value in costs._asdict().items():
            run.row(data="empty tasks", method="one worker", metric=metric, value=value, workers=1)
        for n_workers in arguments.sizes:
            with run.measure(f"{n_workers} worker processes"), local(n_workers):
                for fan_in in arguments.fan_ins:
                    compare(run, n_workers, fan_in, arguments.block_seconds, costs)
        if arguments.kill_with:
            with run.measure("a worker is killed"):
                kill(run, arguments.kill_with, costs)
        points = [crowded(run, n_workers, costs) for n_workers in arguments.crowds]
        if len(points) > 1:
            figure, axes = new_plot("The scheduler", x="workers", y="milliseconds for each task", log="x")
            axes.plot(arguments.crowds, [1000 * point for point in points], marker="o")
            axes.set_ylim(bottom=0)
            run.plot("scheduler", figure, "CPU milliseconds of the scheduler for each task.")
        offs = [abs(row["value"]) for row in run.report.rows if row["metric"] == "off"]
        if offs:
            run.answer(
                f"The simulation is off by at most {max(offs):.0%} from {len(offs)} real passes, {np.median(offs):.1%} "
                f"on the median."
            )


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.tree_trials", __doc__)
    add = parser.add_argument
    add(
        "--sizes",
        type=form.positive,
        nargs="*",
        default=[1, 2, 4],
        metavar="N",
        help="numbers of worker processes",
    )
    add("--fan-ins", type=form.positive, nargs="+", default=[2, 4], metavar="F", help="summaries of a merge")
    add("--blocks", type=form.positive, default=24, help="of a pass on worker processes")
    add(
        "--block-seconds",
        type=float,
        default=2.0,
        help="mean sleep of a block; a merge sleeps two fifths of it",
    )
    add("--spread", type=float, default=0.3, help="deviation of the logarithm of a block's sleep")
    add("--crowds", type=form.positive, nargs="*", default=[10, 100], metavar="N",
        help="numbers of workers that share a process")  # fmt: skip
    add("--crowd-blocks", type=float, default=2.5, metavar="B", help="blocks for each worker of a crowd")
    add("--crowd-seconds", type=float, default=10.0, metavar="S", help="mean sleep of a block of a crowd")
    add("--empty-tasks", type=form.positive, default=1000, help="blocks of passes that do not sleep")
    add(
        "--restart-seconds",
        type=float,
        default=3.0,
        help="that a killed worker of this machine takes to be back",
    )
    add("--kill-with", type=int, default=4, metavar="N", help="workers of which one is killed, 0 for none")
    return parser


@contextmanager
def local(n_workers: int) -> Iterator[Client]:
    """Start worker processes with one thread each, and a client in force."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=0, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def costs_of(arguments: argparse.Namespace) -> Costs:
    """Run empty tasks on one worker, and a chain of them that goes to and fro between two."""
    n_tasks = 2 * arguments.empty_tasks - 1
    with crowd(1) as client:
        sleep_through([0.0] * 8, merge_seconds=0.0)  # imports
        before = client.run_on_scheduler(time.process_time)
        slept = sleep_through([0.0] * arguments.empty_tasks, merge_seconds=0.0)
        scheduler = (client.run_on_scheduler(time.process_time) - before) / n_tasks
    with local(2) as client:
        here, there = client.scheduler_info()["workers"]
        for warm_up in (True, False):
            still = chained(client, [here, here], 10 if warm_up else 100)
            moved = chained(client, [here, there], 10 if warm_up else 100)
    latency = max(0.0, moved - still) / 2
    overhead = max(0.0, slept.seconds / n_tasks - scheduler - 2 * latency)
    return Costs(scheduler, overhead, slept.start_seconds / n_tasks, latency)


def chained(client: Client, workers: list[str], length: int) -> float:
    """Return the seconds of each task of a chain that takes turns between workers."""
    start, last = time.perf_counter(), client.submit(int, workers=[workers[0]], pure=False)
    for i in range(1, length):
        last = client.submit(int, last, workers=[workers[i % len(workers)]], pure=False)
    last.result()
    return (time.perf_counter() - start) / length


def lengths(n_blocks: int, mean: float, spread: float, seed: int) -> Any:
    """Draw the sleep of each block."""
    drawn = np.random.default_rng(seed).standard_normal(n_blocks)
    return mean * np.exp(spread * drawn - spread**2 / 2)


def simulated(
    blocks: Any, n_workers: int, fan_in: int, merge_seconds: float, costs: Costs, **more: Any
) -> Outcome:
    """Return what the simulation says of a pass, from the first block on."""
    kills = more.pop("kills", ())
    settings = Settings(
        n_blocks=len(blocks), machines=n_workers, block_seconds=0.0, fan_in=fan_in,
        scheduler_seconds=costs.scheduler_seconds, latency=costs.latency, **more,
    )  # fmt: skip
    groups = tree_of(len(blocks), fan_in).children[len(blocks) :]
    seconds = [*blocks, *(merge_seconds * len(group) / fan_in for group in groups)]
    return simulate(settings, seconds=[one + costs.overhead_seconds for one in seconds], kills=kills)


def compare(run: form.Run, n_workers: int, fan_in: int, mean: float, costs: Costs) -> None:
    """Run a pass on the workers in force and in the simulation."""
    arguments = run.arguments
    sleep_through([0.0] * 2 * n_workers, merge_seconds=0.0)  # imports
    blocks = lengths(arguments.blocks, mean, arguments.spread, arguments.seed)
    slept = sleep_through(blocks.tolist(), merge_seconds=0.4 * mean, fan_in=fan_in)
    said = simulated(blocks, n_workers, fan_in, 0.4 * mean, costs)
    tell(run, "processes", slept, said.seconds, workers=n_workers, fan_in=fan_in)


def tell(run: form.Run, method: str, slept: Slept, said: float, **fields: Any) -> None:
    """Add the rows of one comparison."""
    off = said / slept.seconds - 1.0
    for metric, value in {"seconds": slept.seconds, "simulated_seconds": said, "off": off}.items():
        run.row(data="sleeping tasks", method=method, metric=metric, value=value, **fields)


def crowded(run: form.Run, n_workers: int, costs: Costs) -> float:
    """Run passes on many workers of one process; return the scheduler's CPU seconds for each task."""
    arguments = run.arguments
    mean, n_blocks = arguments.crowd_seconds, round(arguments.crowd_blocks * n_workers)
    with run.measure(f"a crowd of {n_workers}"), crowd(n_workers) as client:
        sleep_through([0.0] * 2 * n_workers, merge_seconds=0.0)
        before = client.run_on_scheduler(time.process_time)
        n_empty = max(arguments.empty_tasks, 2 * n_workers + 1)
        sleep_through([0.0] * n_empty, merge_seconds=0.0)
        spent = (client.run_on_scheduler(time.process_time) - before) / (2 * n_empty - 1)
        blocks = lengths(n_blocks, mean, arguments.spread, arguments.seed)
        slept = sleep_through(blocks.tolist(), merge_seconds=0.4 * mean)
    run.row(data="empty tasks", method="crowd", metric="scheduler_seconds", value=spent, workers=n_workers)
    said = simulated(blocks, n_workers, 2, 0.4 * mean, costs._replace(scheduler_seconds=spent))
    tell(run, "crowd", slept, said.seconds, workers=n_workers, fan_in=2)
    return spent


def kill(run: form.Run, n_workers: int, costs: Costs) -> None:
    """Kill a worker half-way; the simulation loses each of the machines in turn, for it is not known which it was."""
    arguments = run.arguments
    mean = arguments.block_seconds
    blocks = lengths(arguments.blocks, mean, arguments.spread, arguments.seed)
    n_tasks = len(tree_of(len(blocks), 2).children)
    with tempfile.TemporaryDirectory(prefix="dspectral-") as folder, local(n_workers) as client:
        log = Path(folder) / "begun"
        sleep_through([0.0] * 2 * n_workers, merge_seconds=0.0)
        victim = next(iter(client.run(os.getpid).values()))
        with ThreadPoolExecutor(1) as pool:
            killed = pool.submit(_kill_half_way, victim, log, n_tasks // 2)
            slept = sleep_through(blocks.tolist(), merge_seconds=0.4 * mean, log=str(log))
            moment = killed.result()
        begun = [float(line) for line in log.read_text(encoding="utf-8").split()]
    restart = arguments.restart_seconds
    said = [
        simulated(blocks, n_workers, 2, 0.4 * mean, costs, kills=[(moment - begun[0], machine)],
                  restart_seconds=restart)
        for machine in range(n_workers)
    ]  # fmt: skip
    tell(run, "one killed", slept, float(np.mean([one.seconds for one in said])), workers=n_workers, fan_in=2)
    values = {
        "simulated_least_seconds": min(one.seconds for one in said),
        "simulated_most_seconds": max(one.seconds for one in said),
        "tasks_redone": len(begun) - n_tasks,
        "simulated_least_redone": min(one.n_redone for one in said),
        "simulated_most_redone": max(one.n_redone for one in said),
        "killed_after_seconds": moment - begun[0],
    }
    for metric, value in values.items():
        run.row(
            data="sleeping tasks",
            method="one killed",
            metric=metric,
            value=value,
            workers=n_workers,
            fan_in=2,
        )


def _kill_half_way(victim: int, log: Path, n_begun: int) -> float:
    """Kill a process once so many tasks have begun; return when."""
    while not log.exists() or log.read_text(encoding="utf-8").count("\n") < n_begun:
        time.sleep(0.01)
    os.kill(victim, signal.SIGKILL)
    return time.time()


if __name__ == "__main__":
    main()
