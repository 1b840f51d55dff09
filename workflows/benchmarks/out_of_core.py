"""Peak memory against rows: sketch a store far larger than the workers' memory, at 1, 2, 4, 8 times the rows.

A store of sparse counts is generated once, block by block; its first eighth, fourth, half and all of it are
then sketched in one pass each. The law, stated before each run, allows every worker its interpreter, the work
of one block and the summary it leaves, and all of them together one waiting summary a level of the tree: rows
enter through the tree's depth alone. Workers started by ``--workers`` may not spill, and one that comes near
its memory limit is ended.
"""

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

import dask
import numpy as np
import psutil
from distributed import Client
from scipy import sparse

from dspectral import TruncatedSVD, estimate_memory, open_store, summarize, write_counts
from dspectral.configuration import tree_depth
from dspectral.datasets import low_rank_counts
from dspectral.decomposition import FrequentDirections
from dspectral.store import CountStore

from .._form import form
from .._form.plots import new_plot
from .._form.usage import Used

NO_SPILLING = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": 0.9,
}
"""For workers started here: what does not fit below the limit is to fail, not to go to disk."""


def main(argv: list[str] | None = None) -> None:
    """Generate, then sketch larger and larger parts."""
    parser = options()
    arguments = parser.parse_args(argv)
    if not arguments.workers and not arguments.scheduler:
        parser.error("peak memory is each worker's own: give --workers N or --scheduler ADDRESS")
    with (
        dask.config.set(NO_SPILLING),
        form.run(arguments) as run,
        form.scratch_folder(arguments.scratch) as scratch,
    ):
        if arguments.store:
            store = open_store(arguments.store)
        else:
            with run.measure("generate the store"):
                store = generated(arguments, f"{scratch}/counts.zarr")
        run.note(
            f"{store.n_rows} rows x {store.n_columns} columns, {store.nnz} entries in {len(store.blocks)} "
            f"blocks: {store.n_bytes / 1e9:.2f} GB not compressed"
        )
        points = []
        for factor in arguments.factors:
            n_blocks = -(-len(store.blocks) * factor // max(arguments.factors))
            part = replace(store, blocks=store.blocks[:n_blocks])
            if factor <= (arguments.sketch_up_to or factor):
                points.append(sketch_part(run, part, factor))
            if arguments.components:
                decompose_part(run, part, factor)
        if points:
            plot(run, points)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.out_of_core", __doc__)
    add = parser.add_argument
    add("--rows", type=form.positive, default=500_000, help="at factor 1")
    add("--columns", type=form.positive, default=1 << 18, help="of the counts")
    add("--row-length", type=form.positive, default=200, help="words of a row on average")
    add("--block-rows", type=form.positive, default=50_000, help="rows of a block")
    add("--sketch-size", type=form.positive, default=200, help="rows of the sketch")
    about = "singular vectors to find in several passes (default: the sketch alone)"
    add("--components", type=form.positive, metavar="K", help=about)
    add("--passes", type=form.positive, default=4, help="for the singular vectors")
    add("--factors", type=form.positive, nargs="+", default=[1, 2, 4, 8], help="times the rows")
    about = "largest factor that is sketched as well (default: all are)"
    add("--sketch-up-to", type=form.positive, metavar="F", help=about)
    add("--store", help="of counts to read (default: one is generated)")
    add("--scratch", type=form.local_path, help="folder for the store (default: the system's)")
    return parser


def generated(arguments: argparse.Namespace, path: str) -> CountStore:
    """Write topic-model counts with Zipf's column frequencies."""
    counts = low_rank_counts(
        arguments.rows * max(arguments.factors),
        arguments.columns,
        100,
        row_length=arguments.row_length,
        block_rows=arguments.block_rows,
        seed=arguments.seed,
    )
    write_counts(counts, path)
    return open_store(path)


def sketch_part(run: form.Run, part: CountStore, factor: int) -> tuple[int, int, int]:
    """Sketch the first part of the rows; return its bytes, the peak and what the law allows."""
    arguments = run.arguments
    law = allowed(run, part)
    run.note(
        f"x{factor}: {len(part.blocks)} blocks, {part.n_bytes / 1e9:.2f} GB; the law allows {law / 1e9:.2f} GB in all"
    )
    before = spilled(run)
    of = partial(FrequentDirections.from_block, size=arguments.sketch_size, seed=arguments.seed)
    with run.measure(f"sketch x{factor}") as used:
        summary = summarize(part, summarize_block=of, name="sketch")
    run.passes += 1
    values = {
        "allowed_memory_bytes_of_all_workers": law,
        "spilled_bytes": spilled(run) - before,
        "relative_certificate": summary.error / summary.energy,
    }
    report(run, part, f"x{factor}", "frequent_directions", used, values)
    return part.n_bytes, sum(used.peaks_of_workers), law


def decompose_part(run: form.Run, part: CountStore, factor: int) -> None:
    """Find the leading singular vectors of the first part of the rows, by block Krylov passes."""
    arguments = run.arguments
    model = TruncatedSVD(arguments.components, solver="krylov", n_passes=arguments.passes, random_state=arguments.seed)
    before = spilled(run)
    used = run.fit(f"decompose x{factor}", model, part)
    values = {
        "spilled_bytes": spilled(run) - before,
        "relative_certificate": model.certificate_.relative,
        "client_memory_bytes": used.peak_memory_bytes_here,
        "passes": model.n_passes_,
    }
    report(run, part, f"x{factor}", "krylov", used, values)


def report(run: form.Run, part: CountStore, data: str, method: str, used: Used, values: dict[str, float]) -> None:
    """Add a row for each figure."""
    values = {
        "store_bytes": part.n_bytes,
        "entries": part.nnz,
        "peak_memory_bytes": max(used.peaks_of_workers),
        "peak_memory_bytes_of_all_workers": sum(used.peaks_of_workers),
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        **values,
    }
    run.rows(values, data=data, method=method, blocks=len(part.blocks))


def allowed(run: form.Run, part: CountStore) -> int:
    """Return the bytes that the memory law allows all workers together, their interpreters included."""
    summary = run.arguments.sketch_size * part.n_columns * 4
    block = max(block.n_bytes for block in part.blocks)
    client: Client = run.client
    interpreters = sum(client.run(_interpreter).values())
    n_workers = len(client.nthreads())
    # A block and as much again for its pieces; the basis is the sketch's size and a half (see block_krylov),
    # and its memory becomes the sketch's. A summary that travels is on two workers for a while.
    work = int(2 * block + 0.75 * summary) + summary
    return interpreters + estimate_memory(
        summary_bytes=summary, n_blocks=len(part.blocks), work_bytes=work, n_workers=n_workers
    )


def _interpreter() -> int:
    """Return the resident memory of a worker that has compiled what it needs."""
    rng = np.random.default_rng(0)
    rows = sparse.random_array((3000, 3000), density=0.002, format="csr", dtype=np.float32, rng=rng)
    FrequentDirections.from_block(rows, size=40)
    return int(psutil.Process().memory_info().rss)


def spilled(run: form.Run) -> int:
    """Return the bytes that workers have written to disk to free memory, since they started."""
    client: Client = run.client
    return sum(client.run(_spilled).values())


def _spilled(dask_worker: Any) -> int:
    metrics = getattr(dask_worker.data, "cumulative_metrics", {})
    return int(sum(value for key, value in metrics.items() if key[0] == "disk-write" and key[-1] == "bytes"))


def plot(run: form.Run, points: list[tuple[int, int, int]]) -> None:
    """Draw memory against the store's size."""
    figure, axes = new_plot("Memory of all workers", x="store, GB not compressed", y="GB")
    sizes, peaks, laws = ([value / 1e9 for value in values] for values in zip(*points, strict=True))
    axes.plot(sizes, peaks, marker="o", label="peak, measured")
    axes.plot(sizes, laws, marker="s", linestyle="--", label="allowed by the law")
    axes.plot(sizes, sizes, color="#999", linewidth=0.8, label="the store itself")
    axes.legend(frameon=False)
    axes.set_ylim(bottom=0)
    depth = tree_depth(run.report.rows[-1]["blocks"])
    run.plot("memory", figure, f"Peak memory of all workers against the store; the last tree has {depth} levels.")


if __name__ == "__main__":
    main()
