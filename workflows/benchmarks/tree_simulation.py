"""Simulate a pass over many machines: where scheduler, network, merges or the last solve become the limit.

The defaults are the matrix of Kim, Stratos and Sarikaya 2016: 17,032,086,719 queries, their n-grams hashed to a
million columns, on 1,000 machines. Seconds of a block, of a merge and of the last solve are measured here by a short
probe at smaller sizes, unless they are given; those of the scheduler and of a worker for each task are what
`benchmarks.tree_trials` measured. Network, stragglers and failures are assumptions. Each sweep varies one of them.
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any

from .._form import form
from .._form.options import whole_number
from ._tree import pictures
from ._tree.events import simulate
from ._tree.pictures import LIMITS, Took
from ._tree.probe import Law, probed
from ._tree.settings import PLACEMENTS, Settings, least_seconds

BYTES_PER_NUMBER = 4
"""Sketches of single-precision rows are in single precision."""
SWEEPS: dict[str, tuple[float, ...]] = {
    "block_rows": (1 / 16, 1 / 4, 1, 2, 4, 8),
    "fan_in": (2, 4, 8),
    "sketch_rows": (1 / 4, 1 / 2, 1),
    "machines": (1 / 100, 1 / 10, 1 / 3, 1, 3, 10),
    "bandwidth": (1 / 100, 1 / 10, 1, 10),
    "scheduler_seconds": (1, 10, 100),
    "failures": (0, 1, 10, 100),
}
"""Factors of the value asked for; of ``fan_in`` the values themselves."""
OF_OTHER_SIZES = {
    "block_seconds": ("block_rows", "sketch_rows"),
    "merge_seconds": ("fan_in", "sketch_rows"),
    "solve_seconds": ("sketch_rows",),
}
"""Sweeps of which seconds that are given say nothing."""


def main(argv: list[str] | None = None) -> None:
    """Probe, simulate what was asked for, then vary it."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        sweeps, clock = swept(arguments), Clock(run)
        base = took(arguments, clock)
        report(run, "as asked for", base)
        pictures.timeline(run, base)
        pictures.shares(run, base)
        for name in sweeps:
            sweep(run, name, arguments, clock)
        other = PLACEMENTS[1 - PLACEMENTS.index(arguments.placement)]
        report(run, f"placement {other}", took(varied(arguments, placement=other), clock))
        shares = base.shares()
        largest = max(shares, key=lambda name: shares[name])
        run.answer(
            f"{arguments.rows:,} rows hashed to {arguments.columns:,} columns take {base.seconds / 60:.1f} minutes on "
            f"{arguments.machines:,} machines; the largest share is that of {LIMITS[largest]}, {shares[largest]:.0%}."
        )


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.tree_simulation", __doc__)
    add = parser.add_argument
    add("--rows", type=form.positive, default=17_032_086_719, help="of the matrix")
    add("--columns", type=form.positive, default=1 << 20, help="of the matrix, hashed")
    add("--nonzeros", type=form.positive, default=10, help="entries of a row, an assumption")
    add("--sketch-rows", type=form.positive, default=200, help="of each summary")
    add("--block-rows", type=form.positive, default=2_000_000, help="rows of a block")
    add("--fan-in", type=form.positive, default=2, help="summaries that a merge takes")
    add("--machines", type=form.positive, default=1000, help="workers of one task each")
    add("--block-seconds", type=float, metavar="S", help="of a block (default: as probed)")
    add("--merge-seconds", type=float, metavar="S", help="of a merge (default: as probed)")
    add("--solve-seconds", type=float, metavar="S", help="of the last solve (default: as probed)")
    add("--scheduler-seconds", type=float, default=0.0011, help="of the scheduler for each task")
    add("--overhead-seconds", type=float, default=0.004, help="of a worker for each task, beside its work")
    add("--start-seconds", type=float, default=0.0003, help="for each task before the first begins")
    add("--latency", type=float, default=0.001, metavar="S", help="seconds of a message, an assumption")
    add(
        "--bandwidth", type=float, default=1.25e9, metavar="B", help="bytes a second of a link, an assumption"
    )
    add(
        "--spread", type=float, default=0.2, help="deviation of the logarithm of a task's time, an assumption"
    )
    add("--slow-share", type=form.share, default=0.01, help="of machines that are slow, an assumption")
    add("--slow-factor", type=float, default=3.0, help="how much slower they are, an assumption")
    add("--failures", type=float, default=0.01, help="of a machine in an hour, an assumption")
    add("--notice-seconds", type=float, default=5.0, help="until a lost machine is known to be lost")
    add("--restart-seconds", type=float, default=60.0, help="until it is back, empty")
    add(
        "--keep-level",
        type=whole_number,
        metavar="L",
        help="level from which summaries are stored (default: none)",
    )
    add("--placement", choices=PLACEMENTS, default="queue", help="queue is what the scheduler does")
    add("--sweeps", nargs="*", choices=tuple(SWEEPS), metavar="NAME",
        help=f"what to vary: {', '.join(SWEEPS)} (default: all of which the seconds are known)")  # fmt: skip
    return parser


def swept(arguments: argparse.Namespace) -> list[str]:
    """Return what to vary."""
    given = [name for name in OF_OTHER_SIZES if getattr(arguments, name) is not None]
    unknown = {sweep: name for name in given for sweep in OF_OTHER_SIZES[name]}
    for name in arguments.sweeps or ():
        if name in unknown:
            option = "--" + unknown[name].replace("_", "-")
            raise ValueError(f"{option} is of one size, so {name} cannot be varied: leave out one of them")
    return [name for name in SWEEPS if name not in unknown] if arguments.sweeps is None else arguments.sweeps


class Clock:
    """Seconds of tasks: given ones, else those of a law that is probed once for each number of sketch rows."""

    def __init__(self, run: form.Run) -> None:
        self.run, self.laws = run, dict[int, Law]()

    def of(self, arguments: argparse.Namespace) -> tuple[float, float, float]:
        """Return the seconds of a block, of a merge, and of the last solve."""
        given = (arguments.block_seconds, arguments.merge_seconds, arguments.solve_seconds)
        if None not in given:
            return given
        law = self.law(arguments.sketch_rows)
        probed_ones = (
            law.block_seconds(arguments.block_rows, arguments.columns),
            law.merge_seconds(arguments.columns, arguments.fan_in),
            law.solve_seconds(arguments.columns),
        )
        block, merge, solve = (
            mine if one is None else one for one, mine in zip(given, probed_ones, strict=True)
        )
        return block, merge, solve

    def law(self, sketch_rows: int) -> Law:
        """Probe where that was not done yet."""
        if sketch_rows not in self.laws:
            arguments = self.run.arguments
            fan_ins = sorted({arguments.fan_in, *(map(int, SWEEPS["fan_in"]))})
            with self.run.measure(f"probe {sketch_rows} sketch rows"):
                law = self.laws[sketch_rows] = probed(
                    sketch_rows, fan_ins, arguments.nonzeros, arguments.seed
                )
            for metric, value in law._asdict().items():
                if isinstance(value, float):
                    self.run.detail(
                        data="probe", method="law", metric=metric, value=value, sketch_rows=sketch_rows
                    )
            self.run.note(
                f"Law of {sketch_rows} sketch rows: off by {law.off:+.0%} on a block that it was not fitted to."
            )
        return self.laws[sketch_rows]


def took(arguments: argparse.Namespace, clock: Clock) -> Took:
    """Simulate what the arguments say."""
    block, merge, solve = clock.of(arguments)
    same = set(Settings._fields) & set(vars(arguments)) - {"block_seconds", "merge_seconds"}
    settings = Settings(
        n_blocks=math.ceil(arguments.rows / arguments.block_rows),
        block_seconds=block,
        merge_seconds=merge,
        summary_bytes=BYTES_PER_NUMBER * arguments.sketch_rows * arguments.columns,
        **{name: getattr(arguments, name) for name in same},
    )
    return Took(settings, simulate(settings), solve)


def varied(arguments: argparse.Namespace, **changes: Any) -> argparse.Namespace:
    """Return other arguments; a given number of seconds stays what it is."""
    return argparse.Namespace(**{**vars(arguments), **changes})


def report(run: form.Run, method: str, took: Took, **fields: Any) -> None:
    """Add the rows of one simulated pass."""
    outcome, settings = took.outcome, took.settings
    values = {
        "seconds": took.seconds,
        "least_seconds": max(least_seconds(settings).values()),
        "block_seconds": settings.block_seconds,
        "merge_seconds": settings.merge_seconds,
        "tasks": outcome.n_tasks,
        "tasks_redone": outcome.n_redone,
        "machines_lost": outcome.n_lost,
        "moved_bytes": outcome.moved_bytes,
        "most_held_bytes": outcome.most_held * settings.summary_bytes,
        **{f"{name}_share": share for name, share in took.shares().items()},
    }
    data = f"{run.arguments.rows:,} x {run.arguments.columns:,}"
    for metric, value in values.items():
        add = run.row if metric == "seconds" or not fields else run.detail
        add(data=data, method=method, metric=metric, value=value, **fields)


def sweep(run: form.Run, name: str, arguments: argparse.Namespace, clock: Clock) -> None:
    """Vary one setting, and draw seconds and shares."""
    values, points = sweep_values(name, arguments), []
    with run.measure(f"vary {name.replace('_', ' ')}"):
        for value in values:
            points.append(took(varied(arguments, **{name: value}), clock))
            report(run, f"vary {name.replace('_', ' ')}", points[-1], **{name: value})
    pictures.vary(run, name, values, points)


def sweep_values(name: str, arguments: argparse.Namespace) -> Sequence[float]:
    """Return what a sweep tries, in order and with the value asked for."""
    asked = getattr(arguments, name)
    if name == "fan_in":
        return sorted({asked, *map(int, SWEEPS[name])})
    if isinstance(asked, int):
        return sorted({max(1, round(asked * factor)) for factor in SWEEPS[name]})
    return sorted({asked, *(asked * factor for factor in SWEEPS[name])})


if __name__ == "__main__":
    main()
