"""Time what users wait for with one worker and with two: threads of one process, or processes.

Each run is a process of its own, which practices on toy data before its clock starts; runs with one worker and with
more take turns, and every other repetition is in the reverse order. Reported is how many times as fast more workers
are than the first number of them, by the wall clock and within a repetition: the median and the quartiles. CPU seconds
stand beside it: where they grow, workers wait for memory or for each other; where they do not, part of the work is for
one worker alone. Between passes this process alone computes, with as many threads of BLAS as there are workers.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Client
from threadpoolctl import threadpool_limits

from dspectral import (
    MomentMultiLabelClassifier,
    TruncatedSVD,
    WordEmbedding,
    build_corpus,
    build_store,
    open_corpus,
    open_store,
    write_counts,
)
from dspectral.datasets import labeled_counts, low_rank_counts

from .._form import form
from .._form.plots import COLOURS, new_plot
from .._form.schedulers import scheduler
from .._form.usage import Meter
from .._parts.class_chain import ClassChain

KINDS = ("threads", "processes")
BLOCKS = 16
"""Blocks of stores and of the text: eight for each of two workers."""
ROOT = Path(__file__).parents[2]
TOY = 320
"""Rows of the data that a process practices on."""
Runs = dict[int, list[dict[str, float]]]
"""What each repetition took, by the number of workers."""


def main(argv: list[str] | None = None) -> None:
    """Time all work."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        for name in () if arguments.plan else arguments.work:  # processes of their own have nothing to plan here
            with form.scratch_folder(arguments.scratch) as scratch:
                stages = prepared(run, name, scratch)
                timed = {kind: Runs() for kind in arguments.kinds}
                for repetition in range(arguments.repetitions):
                    one_repetition(run, name, timed, stages, repetition)
            for kind, runs in timed.items():
                report(run, name, kind, runs)
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.scaling", __doc__, fits=False)
    add = parser.add_argument
    add("--work", nargs="+", choices=list(WORKS), default=list(WORKS), metavar="NAME", help=", ".join(WORKS))
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of workers")
    about = "of workers; the first is compared to"
    add("--counts", nargs="+", type=form.positive, default=[1, 2], metavar="N", help=about)
    add("--repetitions", type=form.positive, default=5, metavar="N", help="of each")
    about = "rows of counts; the text has five sentences for each"
    add("--size", type=form.positive, default=200_000, help=about)
    add("--scratch", type=form.local_path, help="folder for the data (default: the system's)")
    return parser


def prepared(run: form.Run, name: str, scratch: Path) -> list[tuple[Path, int]]:
    """Write toy data and the data, and return where they are, with their sizes."""
    stages = []
    for size in (min(TOY, run.arguments.size), run.arguments.size):
        folder = scratch / f"data-{len(stages)}"
        folder.mkdir()
        with run.measure(f"{name}: make the data, {size} rows"):
            WORKS[name].data(folder, size, run.arguments.seed)
        stages.append((folder, size))
    return stages


def one_repetition(
    run: form.Run, name: str, timed: dict[str, Runs], stages: list[tuple[Path, int]], repetition: int
) -> None:
    """Run each kind with each number of workers, every other time in the reverse order."""
    arguments = run.arguments
    turns = [(kind, n) for kind in arguments.kinds for n in arguments.counts]
    for kind, n in turns if repetition % 2 == 0 else reversed(turns):
        step = f"{name}, {repetition + 1}/{arguments.repetitions}: {n} {kind}"
        with run.measure(step):
            took = once(name, kind, n, stages)
        timed[kind].setdefault(n, []).append(took)
        print(f"{step}: {took['seconds']:.3g} s, {took['cpu_seconds']:.3g} CPU s", flush=True)


def once(name: str, kind: str, n: int, stages: list[tuple[Path, int]]) -> dict[str, float]:
    """Run one process, and return what it took."""
    out = stages[-1][0].parent / "out"
    orders = {"stages": [(str(folder), size) for folder, size in stages], "out": str(out)}
    call = f"import sys, json; from {__spec__.name} import work; work(*json.loads(sys.argv[1]))"
    command = [sys.executable, "-c", call, json.dumps([name, kind, n, orders])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)  # noqa: S603  our own
    shutil.rmtree(out, ignore_errors=True)
    if done.returncode:
        why = " ".join(done.stderr.strip().splitlines()[-1:]) or f"ended with code {done.returncode}"
        raise ChildProcessError(f"{name} with {n} {kind}: {why}")
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def speedup(runs: Runs, n: int, first: int) -> np.ndarray:
    """Return the quartiles, the median in the middle, of how many times as fast n workers are as the first number.

    >>> seconds = {1: (8.0, 6.0, 9.0), 2: (4.0, 4.0, 5.0)}
    >>> speedup({n: [{"seconds": s} for s in of] for n, of in seconds.items()}, 2, 1).tolist()
    [1.65, 1.8, 1.9]
    """
    of = [base["seconds"] / more["seconds"] for base, more in zip(runs[first], runs[n], strict=True)]
    return np.quantile(of, [0.25, 0.5, 0.75])


def middle(runs: Sequence[dict[str, float]], metric: str) -> float:
    """Return the median of a metric."""
    return float(np.median([took[metric] for took in runs]))


def report(run: form.Run, name: str, kind: str, runs: Runs) -> None:
    """Add rows of one kind of workers."""
    for i, n in enumerate(run.arguments.counts):
        found = {metric: middle(runs[n], metric) for metric in runs[n][0]}
        if i:
            names = ("speedup_lower_quartile", "speedup", "speedup_upper_quartile")
            found |= dict(zip(names, speedup(runs, n, run.arguments.counts[0]).tolist(), strict=True))
        run.rows(found, data=name, method=kind, workers=n)


def plot(run: form.Run) -> None:
    """Draw how many times as fast more workers are."""
    rows = [row for row in run.report.rows if row["metric"] == "speedup"]
    if not rows:
        return
    figure, axes = new_plot("More workers", x="times as fast", y="")
    names = [f"{row['data']}, {row['workers']} {row['method']}" for row in rows]
    colours = [COLOURS[run.arguments.kinds.index(row["method"])] for row in rows]
    bars = axes.barh(names, [row["value"] for row in rows], color=colours)
    axes.bar_label(bars, [f"{row['value']:.2f}" for row in rows], padding=3)
    axes.invert_yaxis()
    run.plot("speedup", figure, "How many times as fast more workers are, by the wall clock.")


class Work(NamedTuple):
    """Something that a user waits for: ``data(folder, size, seed)`` writes what ``go(folder, out, size)`` reads."""

    data: Callable[[Path, int, int], object]
    go: Callable[[Path, Path, int], object]


def components_of(size: int, most: int = 100) -> int:
    """Return how many components, or states, are found in so many rows."""
    return min(most, max(2, size // 16))


def text(folder: Path, size: int, seed: int) -> None:
    """Write five sentences a row of a Brown model of ``size / 8`` words, a line each."""
    chain = ClassChain(max(64, size // 8), max(8, size // 400), seed)
    drawn = chain.draw(5 * size, np.random.default_rng(seed)).tolist()
    with (folder / "text.txt").open("w", encoding="ascii") as file:
        file.writelines(f"{' '.join(chain.words[number] for number in sentence)}\n" for sentence in drawn)


def built(folder: Path, out: Path, _size: int) -> None:
    """Read and hash the text, in blocks small enough that each worker has some in the practice, too."""
    build_store(str(folder / "text.txt"), str(out), block_bytes=_cut_of(folder))


def corpus(folder: Path, size: int, seed: int) -> None:
    """Write the text's sentences as numbers of words."""
    text(folder, size, seed)
    place, cut = str(folder / "corpus"), _cut_of(folder)
    build_corpus(str(folder / "text.txt"), place, tokens="blanks", block_bytes=cut)


def _cut_of(folder: Path) -> int:
    return max(1024, (folder / "text.txt").stat().st_size // BLOCKS)


def counts(folder: Path, size: int, seed: int) -> None:
    """Write counts of planted topics, a fourth as many columns as rows."""
    block_rows = -(-size // BLOCKS)
    rows = low_rank_counts(size, max(64, size // 4), components_of(size), block_rows=block_rows, seed=seed)
    write_counts(rows, str(folder / "counts"))


def documents(folder: Path, size: int, seed: int) -> None:
    """Write counts of documents, with labels."""
    words, labels = labeled_counts(
        size, max(64, size // 5), max(64, size // 100), components_of(size, 50),
        block_rows=-(-size // BLOCKS), seed=seed,
    )  # fmt: skip
    write_counts(words, str(folder / "documents"), labels=labels)


def decomposed(solver: str, n_passes: int) -> Callable[[Path, Path, int], object]:
    """Return a decomposition by so many passes."""

    def go(folder: Path, _out: Path, size: int) -> object:
        model = TruncatedSVD(components_of(size), solver=solver, n_passes=n_passes, random_state=0)
        return model.fit(open_store(str(folder / "counts")))

    return go


def embedded(folder: Path, _out: Path, size: int) -> None:
    """Count the contexts of words, and decompose the counts."""
    WordEmbedding(components_of(size), random_state=0).fit(open_corpus(str(folder / "corpus")))


def fit_labels(folder: Path, _out: Path, size: int) -> None:
    """Learn labels from three moments."""
    store = open_store(str(folder / "documents"))
    MomentMultiLabelClassifier(components_of(size, 50), random_state=0).fit(store)


WORKS = {
    "build_store": Work(text, built),
    "krylov, 4 passes": Work(counts, decomposed("krylov", 4)),
    "sketch, 1 pass": Work(counts, decomposed("frequent_directions", 1)),
    "word embedding": Work(corpus, embedded),
    "many labels": Work(documents, fit_labels),
}
"""By name."""


def work(name: str, kind: str, n: int, orders: dict[str, Any]) -> None:
    """Be the process of one run: do some work with so many workers, on toy data first, and print what it took."""
    with threadpool_limits(n, user_api="blas"), workers(kind, n) as client:
        meter = Meter(client)
        for stage, (folder, size) in enumerate(orders["stages"]):
            # What is imported, compiled and cached in the practice is there for one number of workers as for another.
            with meter.measure() as used:
                WORKS[name].go(Path(folder), Path(orders["out"], str(stage)), size)
    metrics = ("seconds", "cpu_seconds", "peak_memory_bytes")
    print(json.dumps({metric: getattr(used, metric) for metric in metrics}))


@contextmanager
def workers(kind: str, n: int) -> Iterator[Client | None]:
    """Let so many threads, or processes, work."""
    if kind == "threads":
        with dask.config.set(scheduler="threads", num_workers=n):
            yield None
    else:
        asked = argparse.Namespace(workers=n, scheduler=None, memory_limit="auto", debug=False)
        with scheduler(asked) as client:
            yield client


if __name__ == "__main__":
    main()
