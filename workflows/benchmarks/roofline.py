"""Hold every hot loop against what this machine can do, and say what share of its method's time it takes.

Each loop runs on blocks of its own, one for each thread, in turn with its limit: a copy, rows gathered at random, a
product of matrices, decompression. What counts as a byte or an operation is a formula that the report states. One fit
of each method is then profiled in one thread.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from dspectral.engine import blas_in_one_thread

from .._form import form
from .._form.options import number
from .._form.plots import COLOURS, new_plot
from ._roofline import chains, counting, products, reading, sketches
from ._roofline.clock import Rate, measure
from ._roofline.fits import FITS, profile, shares
from ._roofline.limits import machine
from ._roofline.loops import Loop
from ._roofline.table import markdown

LOOPS = {
    loop.name: loop for module in (reading, products, sketches, counting, chains) for loop in module.LOOPS
}
GAP, SHARE = "share_of_limit", "share_of_time"


def main(argv: list[str] | None = None) -> None:
    """Measure limits, loops and fits."""
    with form.run(options().parse_args(argv)) as run, blas_in_one_thread():
        chosen = [LOOPS[name] for name in run.arguments.loops]
        measure_machine(run)
        gaps = {loop.name: measure_loop(run, loop) for loop in chosen}
        worst_first(run, gaps)
        if not run.arguments.no_fits:
            measure_fits(run, chosen)
        run.attach("table.md", markdown(run.report.rows, gap=GAP, share=SHARE))
        plot(run, gaps)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.roofline", __doc__, fits=False)
    add = parser.add_argument
    add("--loops", nargs="+", choices=list(LOOPS), default=list(LOOPS), metavar="NAME", help="to measure")
    add(
        "--threads",
        nargs="+",
        type=form.positive,
        default=[1, 2],
        metavar="N",
        help="that run a loop at once",
    )
    add("--seconds", type=number, default=1.0, help="of each measurement, over its repetitions")
    add("--size", type=form.positive, default=65536, help="rows of a block of counts; other data grow along")
    add("--no-fits", action="store_true", help="profile no fits")
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
            spread = {"low": rate.low, "high": rate.high}
            run.row(
                data="machine",
                method=name,
                metric=f"{unit}s_per_second",
                value=rate.median,
                threads=threads,
                **spread,
            )


def measure_loop(run: form.Run, loop: Loop) -> dict[int, dict[str, float | str]]:
    """Return what a loop reaches with each number of threads."""
    arguments = run.arguments
    with run.measure(f"data for {loop.name}"):
        made = [loop.make(arguments.size, arguments.seed + 10 * i) for i in range(max(arguments.threads))]
    found: dict[int, dict[str, float | str]] = {}
    for threads in sorted(arguments.threads):
        with run.measure(f"{loop.name}, {threads} thread(s)"):
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


def measure_fits(run: form.Run, loops: list[Loop]) -> None:
    """Profile the fits in which the loops stand, each after a small one that compiles what it needs."""
    arguments = run.arguments
    wanted = {share.fit for loop in loops for share in loop.shares}
    for fit in [name for name in FITS if name in wanted]:
        with TemporaryDirectory() as folder:
            for name, size in (("small", min(arguments.size, 1024)), ("whole", arguments.size)):
                place = Path(folder, name)
                place.mkdir()
                with run.measure(f"{fit}, {name}"):
                    profiled = profile(FITS[fit](place, size, arguments.seed))
        for loop, share in shares(loops, fit, profiled).items():
            run.row(data=fit, method=loop, metric=SHARE, value=share, seconds=profiled.seconds)
    run.passes = 1


def plot(run: form.Run, gaps: dict[str, dict[int, dict[str, float | str]]]) -> None:
    """Draw the gaps."""
    figure, axes = new_plot("Loops beside their limits", x="share of the limit", y="")
    order = [row["method"] for row in run.report.rows if row["metric"] == GAP]
    for i, threads in enumerate(sorted(run.arguments.threads)):
        names = list(dict.fromkeys(order))
        places = [j + 0.4 * i for j in range(len(names))]
        values = [float(gaps[name][threads]["value"]) for name in names]
        axes.barh(places, values, height=0.36, color=COLOURS[i], label=f"{threads} thread(s)")
        axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.legend(frameon=False)
    run.plot("gaps", figure, "What each loop reaches of its limit; 1 is the limit.")


if __name__ == "__main__":
    main()
