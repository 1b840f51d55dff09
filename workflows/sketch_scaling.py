"""Sketch random rows in more and more batches: time falls, the error does not (the paper's Table 3).

Gaussian rows are cut into batches, each leaves a Frequent Directions sketch, and sketches merge up a tree.
For each number of batches: the true error, that is the spectral norm of the difference of the two Gram
matrices; the certificate that the sketch carries; the paper's bound; and seconds, beside those of the plain
product of the matrix with its transpose. With `--store` the rows are a store's, of text for instance, in its own
blocks; the true error is then found by power iteration, many passes.
"""

import argparse

from ._form import form


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("sketch_scaling", __doc__)
    add = parser.add_argument
    add("--store", metavar="STORE", help="sketch its rows, not random ones (default: random ones)")
    about = "of --store: damaged blocks to leave out, by name (default: none)"
    add("--without", metavar="BLOCK", nargs="+", default=[], help=about)
    add("--rows", type=form.positive, default=1_000_000, help="of the random matrix")
    add("--columns", type=form.positive, default=100, help="of the random matrix")
    add("--sketch-size", type=form.positive, default=100, help="rows of the sketch")
    add("--batches", type=form.positive, nargs="+", default=[1, 2, 4, 8, 16], help="numbers of row blocks")
    add("--shrink", choices=("full", "median"), default="full", help="median is the paper's schedule")
    add("--repeats", type=form.positive, default=3, help="of each timing, of which the median counts")
    return parser


form.check_options(__name__, options)

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dspectral import open_store
from dspectral.decomposition import FrequentDirections, GramProduct, Moments
from dspectral.engine import summarize
from dspectral.linalg import blas_in_one_thread
from dspectral.store import CountStore

from ._form.plots import from_zero, new_bars, new_plot
from ._form.table import number

POWER_STEPS = 15
DRAWN_ROWS = 4096
"""Rows that are drawn from one generator."""


def draw_gaussian_rows(n_rows: int, n_columns: int, seed: int) -> NDArray[np.float64]:
    """Draw independent standard normal numbers, whose flat spectrum is the hardest case for a sketch."""
    rows = np.empty((n_rows, n_columns))
    for block, start in enumerate(range(0, n_rows, DRAWN_ROWS)):
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(block,))))
        generator.standard_normal(out=rows[start : start + DRAWN_ROWS])
    return rows


def main(argv: list[str] | None = None) -> None:
    """Sketch at every number of batches."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        if arguments.store:
            sketch_store(run, open_store(arguments.store, without=arguments.without))
            return
        name = gaussian(arguments)
        with run.measure("draw the rows"):
            rows = draw_gaussian_rows(arguments.rows, arguments.columns, arguments.seed)
        with run.measure("exact product"), blas_in_one_thread():
            exact, plain = timed(lambda: rows.T @ rows, arguments.repeats)
        run.row(data=name, method="product", metric="seconds", value=plain, batches=1, threads=1)
        energy = float(np.trace(exact))
        for batches in arguments.batches:
            with run.measure(f"{batches} batches"):
                summary, seconds = timed(partial(sketch, rows, batches, arguments), arguments.repeats)
            run.passes += 1
            values = {
                "error": float(np.linalg.norm(exact - Moments.from_block(summary.sketch).gram, 2)),
                "certificate": summary.error,
                "bound": bound(energy, arguments),
                "seconds": seconds,
                "seconds_over_product": seconds / plain,
            }
            run.rows(values, data=name, method=arguments.shrink, batches=batches)
        plot(run)
        plot_tree(run, rows)


def sketch_store(run: form.Run, store: CountStore) -> None:
    """Sketch the rows of a store once, and measure the error."""
    arguments = run.arguments
    if store.left_out:
        run.note(f"Left out of {arguments.store}, as --without asks: {', '.join(store.left_out)}.")
    of = partial(FrequentDirections.from_block, size=arguments.sketch_size, shrink=arguments.shrink)
    with run.measure("sketch") as used:
        summary = summarize(store, summarize_block=of, name="sketch")
    with run.measure("true error"):
        error = true_error(store, summary.sketch, arguments.seed)
    run.passes += 1 + POWER_STEPS
    values = {
        "error": error,
        "certificate": summary.error,
        "certificate_over_error": summary.error / error if error else None,
        "bound": bound(store.energy, arguments),
        "energy": store.energy,
        "seconds": used.seconds,
    }
    name = Path(arguments.store).name
    run.rows(values, data=name, method=arguments.shrink, batches=len(store.blocks))
    shares = {metric: values[metric] / store.energy for metric in ("error", "certificate", "bound")}
    figure, _ = new_bars(name, x="share of the energy of the rows", values=shares)
    run.plot(
        "error",
        figure,
        "What the sketch lost (true error), what it promises (certificate), and what held before any data was read "
        "(bound), as shares of the energy.",
    )
    run.answer(
        f"A sketch of {arguments.sketch_size} rows in place of {store.n_rows:,} lost {shares['error']:.2%} of the "
        f"energy; its certificate promises no more than {shares['certificate']:.2%}, the bound {shares['bound']:.2%}."
    )


def true_error(store: CountStore, sketch: NDArray[np.floating], seed: int) -> float:
    """Return the largest eigenvalue of ``A'A - B'B``, from below, by power iteration on a few vectors."""
    vectors = np.random.default_rng(seed).standard_normal((sketch.shape[1], 8)).astype(sketch.dtype)
    for _ in range(POWER_STEPS):
        vectors, _ = np.linalg.qr(vectors)
        product = summarize(
            store, summarize_block=partial(GramProduct.from_block, factor=vectors), name="product"
        ).product
        product -= sketch.T @ (sketch @ vectors)
        largest = float(np.linalg.eigvalsh(vectors.T @ product)[-1])
        vectors = product
    return largest


def sketch(rows: NDArray[np.float64], batches: int, arguments: argparse.Namespace) -> FrequentDirections:
    """Sketch the rows in so many blocks, under the scheduler in force."""
    size = -(-len(rows) // batches)
    blocks = da.from_array(rows, chunks=(size, -1), name=False)
    of = partial(FrequentDirections.from_block, size=arguments.sketch_size, shrink=arguments.shrink)
    if arguments.workers is None and arguments.scheduler is None and batches == 1:
        with dask.config.set(scheduler="sync"):
            return summarize(blocks, summarize_block=of, name="sketch")
    return summarize(blocks, summarize_block=of, name="sketch")


def gaussian(arguments: argparse.Namespace) -> str:
    """Name the random rows."""
    return f"gaussian {arguments.rows} x {arguments.columns}"


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
        figure, axes = new_plot(f"{name.capitalize()} against batches", x="batches", y=name, log="x")
        for metric in metrics:
            rows = [row for row in run.report.rows if row["metric"] == metric and row["method"] != "product"]
            points = [(row["batches"], row["value"]) for row in rows]
            axes.plot(*zip(*points, strict=True), marker="o", label=metric)
        axes.set_xticks(run.arguments.batches, list(map(str, run.arguments.batches)))
        axes.minorticks_off()
        from_zero(axes)
        axes.legend(frameon=False)
        caption = {
            "error": "Spectral norm of the error of the Gram matrix, with the two bounds on it, against the number of "
            "row blocks.",
            "seconds": "Seconds of a sketch against the number of row blocks.",
        }[name]
        run.plot(name, figure, caption)
    of = {(row["metric"], row["batches"]): row["value"] for row in run.report.rows}
    first, last = min(run.arguments.batches), max(run.arguments.batches)
    run.answer(
        f"From {first} to {last} batches the sketch's true error goes from {number(of['error', first])} to "
        f"{number(of['error', last])}, never above its certificate (last {number(of['certificate', last])}), and its "
        f"time from {of['seconds', first]:.2g} s to {of['seconds', last]:.2g} s."
    )


def plot_tree(run: form.Run, rows: NDArray[np.float64]) -> None:
    """Draw the merge tree of the most batches, with the largest certificate on each level."""
    arguments = run.arguments
    most, fan_in = max(arguments.batches), dask.config.get("dspectral.fan-in", 2)
    with run.measure("certificates of each level"):
        certificates = certificates_of_levels(np.array_split(rows, most), fan_in, arguments)
    run.passes += 1
    for level, value in enumerate(certificates):
        fields = {"metric": "certificate_share", "batches": most, "level": level}
        run.detail(data=gaussian(arguments), method=arguments.shrink, value=value, **fields)
    run.plot(
        "merge_tree",
        plot_merge_tree(most, fan_in, certificates),
        f"How the sketches of {most} batches are merged; beside each level is its largest certificate, as a share of "
        "the energy of the rows beneath.",
    )


def plot_merge_tree(n_blocks: int, fan_in: int, certificates: list[float]) -> Figure:
    """Draw how the summaries of blocks are merged, level by level, with the certificate of each level at the right."""
    positions = [np.arange(1.0, n_blocks + 1)]
    # Each summary is centered above those that it merges; the last group of a level may be smaller.
    while len(below := positions[-1]) > 1:
        first = np.arange(0, len(below), fan_in)
        last = np.minimum(first + fan_in, len(below)) - 1
        positions.append((below[first] + below[last]) / 2)
    n_levels = len(positions)
    figure = Figure(figsize=(6.4, min(1.2 + 0.42 * n_levels, 5.5)), layout="constrained")
    axes = figure.add_subplot()
    shades = colormaps["viridis"](np.linspace(0.05, 0.85, n_levels))
    for level, (x, shade) in enumerate(zip(positions, shades, strict=True)):
        if level:
            below = positions[level - 1]
            lines = [[(child, level - 1.0), (x[i // fan_in], float(level))] for i, child in enumerate(below)]
            width = float(np.clip(90 / len(lines), 0.1, 1.5))
            axes.add_collection(LineCollection(lines, colors=[shade], linewidths=width))
        size = float(np.clip(900 / len(x), 3, 50))
        axes.scatter(x, np.full(len(x), level), s=size, color=[shade], zorder=3, linewidths=0)
    names = [f"{n_blocks:,} block{'s' if n_blocks > 1 else ''}"]
    names += [f"level {level}: {len(x):,}" for level, x in enumerate(positions) if level]
    axes.set(yticks=range(n_levels), yticklabels=names, ylim=(-0.5, n_levels - 0.5), xlabel="block")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    right = axes.twinx()
    right.set(yticks=range(len(certificates)), yticklabels=[f"{100 * share:.2g} %" for share in certificates])
    right.set(ylim=axes.get_ylim(), ylabel="certificate, share of the energy")
    for shown in (axes, right):
        shown.tick_params(axis="y", length=0)
        shown.spines[["top", "right", "left"]].set_visible(False)
    return figure


def certificates_of_levels(
    blocks: list[NDArray[np.float64]], fan_in: int, arguments: argparse.Namespace
) -> list[float]:
    """Return the largest certificate on each level of the merge tree, as a share of its rows' energy."""
    sketches = [
        FrequentDirections.from_block(block, size=arguments.sketch_size, shrink=arguments.shrink) for block in blocks
    ]
    found = [max(sketch.error / sketch.energy for sketch in sketches)]
    while len(sketches) > 1:
        groups = [sketches[i : i + fan_in] for i in range(0, len(sketches), fan_in)]
        sketches = [group[0].merge(*group[1:]) for group in groups]
        found.append(max(sketch.error / sketch.energy for sketch in sketches))
    return found


if __name__ == "__main__":
    main()
