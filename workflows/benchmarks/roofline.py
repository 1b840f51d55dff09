"""Hold every hot loop against what this machine can do.

Each loop runs on blocks of its own, one for each thread, in turn with its limit: a copy, rows gathered at random, a
product of matrices, decompression. What counts as a byte or an operation is a formula that the report states.
"""

import argparse

from dspectral.engine import blas_in_one_thread

from .._form import form
from .._form.options import number
from .._form.plots import new_bars
from ._roofline import LOOPS, Loop, Rate, machine, measure

GAP = "share_of_limit"


def main(argv: list[str] | None = None) -> None:
    """Measure limits and loops."""
    with form.run(options().parse_args(argv)) as run, blas_in_one_thread():
        measure_machine(run)
        gaps = {name: measure_loop(run, name, LOOPS[name]) for name in run.arguments.loops}
        worst_first(run, gaps)
        plot(run, gaps)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.roofline", __doc__, fits=False)
    add = parser.add_argument
    add("--loops", nargs="+", choices=list(LOOPS), default=list(LOOPS), metavar="NAME", help="to measure")
    about = "that run a loop at once"
    add("--threads", nargs="+", type=form.positive, default=[1, 2], metavar="N", help=about)
    add("--seconds", type=number, default=1.0, help="of each measurement, over its repetitions")
    add("--size", type=form.positive, default=65536, help="rows of a block of counts; other data grow along")
    return parser


def measure_machine(run: form.Run) -> None:
    """Measure the limits that hold for any block."""
    arguments = run.arguments
    for threads in sorted(arguments.threads):
        made = [machine(arguments.size, arguments.seed + thread) for thread in range(threads)]
        for name, (unit, _) in made[0].items():
            with run.measure(f"{name}, {threads} thread(s)"):
                [found] = measure([[limits[name][1] for limits in made]], arguments.seconds)
            rate = Rate.of(found)
            fields = {"threads": threads, "low": rate.low, "high": rate.high}
            run.rows({f"{unit}s_per_second": rate.median}, data="machine", method=name, **fields)


def measure_loop(run: form.Run, name: str, loop: Loop) -> dict[int, dict[str, float | str]]:
    """Return what a loop reaches with each number of threads."""
    arguments = run.arguments
    with run.measure(f"data for {name}"):
        made = [loop.make(arguments.size, arguments.seed + 10 * i) for i in range(max(arguments.threads))]
    found: dict[int, dict[str, float | str]] = {}
    for threads in sorted(arguments.threads):
        with run.measure(f"{name}, {threads} thread(s)"):
            reached, limit = measure(list(zip(*made[:threads], strict=True)), arguments.seconds)
        rate, bound = Rate.of(reached), Rate.of(limit)
        gap = Rate.of([one / most for one, most in zip(reached, limit, strict=True)])
        found[threads] = {
            "value": gap.median,
            "low": gap.low,
            "high": gap.high,
            "reached": rate.median,
            "at_best": bound.median,
            "unit": f"{loop.unit}s per second",
            "limit": loop.limit,
            "formula": loop.formula,
        }
    return found


def worst_first(run: form.Run, gaps: dict[str, dict[int, dict[str, float | str]]]) -> None:
    """Add a row for each loop and number of threads, the widest gap first."""
    least = min(run.arguments.threads)
    for name in sorted(gaps, key=lambda loop: gaps[loop][least]["value"]):
        for threads, fields in gaps[name].items():
            run.row(data="blocks", method=name, metric=GAP, threads=threads, **fields)


def plot(run: form.Run, gaps: dict[str, dict[int, dict[str, float | str]]]) -> None:
    """Draw the gaps with the least number of threads."""
    least = min(run.arguments.threads)
    values = {name: float(of[least]["value"]) for name, of in gaps.items()}
    figure, _ = new_bars(
        f"Loops beside their limits, {least} thread(s)", x="share of the limit", values=values
    )
    run.plot("gaps", figure, "What each loop reaches of its limit; 1 is the limit.")


if __name__ == "__main__":
    main()
