"""Sketch random rows in more and more batches: time falls, the error does not (the paper's Table 3).

Gaussian rows are cut into batches, each leaves a Frequent Directions sketch, and sketches merge up a tree.
For each number of batches: the true error, that is the spectral norm of the difference of the two Gram
matrices; the certificate that the sketch carries; the paper's bound; and seconds, beside those of the plain
product of the matrix with its transpose.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from dspectral.datasets import gaussian_rows
from dspectral.graph import blas_in_one_thread, summarize
from dspectral.summaries.directions import FrequentDirections
from dspectral.summaries.moments import Moments
from workflows import form
from workflows.plots import new_plot


def main(argv: list[str] | None = None) -> None:
    """Sketch at every number of batches."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        name = f"gaussian {arguments.rows} x {arguments.columns}"
        with run.measure("draw the rows"):
            drawn = gaussian_rows(arguments.rows, arguments.columns, seed=arguments.seed)
            rows = np.asarray(drawn.compute())
        with run.measure("exact product"), blas_in_one_thread():
            exact, plain = timed(lambda: rows.T @ rows, arguments.repeats)
        run.row(data=name, method="product", metric="seconds", value=plain, batches=1, threads=1)
        energy = float(np.trace(exact))
        for batches in arguments.batches:
            with run.measure(f"{batches} batches"):
                summary, seconds = timed(partial(sketch, rows, batches, arguments), arguments.repeats)
            run.passes += 1
            values = {
                "error": float(np.linalg.norm(exact - gram_of(summary), 2)),
                "certificate": summary.error,
                "bound": bound(energy, arguments),
                "seconds": seconds,
                "seconds_over_product": seconds / plain,
            }
            for metric, value in values.items():
                run.row(data=name, method=arguments.shrink, metric=metric, value=value, batches=batches)
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("sketch_scaling", __doc__)
    add = parser.add_argument
    add("--rows", type=form.positive, default=1_000_000, help="of the random matrix (1000000)")
    add("--columns", type=form.positive, default=100, help="of the random matrix (100)")
    add("--sketch-size", type=form.positive, default=100, help="rows of the sketch (100)")
    add("--batches", type=form.positive, nargs="+", default=[1, 2, 4, 8, 16], help="numbers of row blocks")
    add("--shrink", choices=("full", "median"), default="full", help="median is the paper's schedule (full)")
    add("--repeats", type=form.positive, default=3, help="of each timing, of which the median counts (3)")
    return parser


def sketch(rows: NDArray[np.float64], batches: int, arguments: argparse.Namespace) -> FrequentDirections:
    """Sketch the rows in so many blocks, under the scheduler in force."""
    size = -(-len(rows) // batches)
    blocks = da.from_array(rows, chunks=(size, -1), name=False)
    of = partial(FrequentDirections.of, size=arguments.sketch_size, shrink=arguments.shrink)
    if arguments.workers is None and arguments.scheduler is None and batches == 1:
        with dask.config.set(scheduler="sync"):
            return summarize(blocks, of=of, name="sketch")
    return summarize(blocks, of=of, name="sketch")


def gram_of(summary: FrequentDirections) -> NDArray[np.float64]:
    """Return the Gram matrix of a sketch."""
    return Moments.of(summary.sketch).gram


def bound(energy: float, arguments: argparse.Namespace) -> float:
    """Return the paper's bound: the squared Frobenius norm over l, twice that for the median schedule."""
    return energy / arguments.sketch_size * (2.0 if arguments.shrink == "median" else 1.0)


def timed(function: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """Return the last result and the median of the seconds."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def plot(run: form.Run) -> None:
    """Draw errors and seconds against batches."""
    for name, metrics in (("error", ("error", "certificate", "bound")), ("seconds", ("seconds",))):
        figure, axes = new_plot(f"{name} against batches", x="batches", y=name, log="xy")
        for metric in metrics:
            points = [(row["batches"], row["value"]) for row in run.report.rows if row["metric"] == metric]
            points = [point for point in points if point[1]]
            axes.plot(*zip(*points, strict=True), marker="o", label=metric)
        axes.legend(frameon=False)
        run.plot(name, figure, f"{name.capitalize()} against the number of row blocks.")


if __name__ == "__main__":
    main()
