"""Forget 1 row, 100 rows and 1 % of a store, and compare a refit with checkpoints to a fit from nothing.

Rows are scattered over the store, or consecutive. Each fit of the other rows must have the same bits.
"""

from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import dask.array as da
import numpy as np
import psutil
from scipy import sparse

import dspectral
from dspectral.datasets import low_rank_counts

from .._form import form


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = form.parser("benchmarks.forgetting", __doc__, fits=False)
    add = parser.add_argument
    add("--rows", type=form.positive, default=100_000, help="of the store")
    add("--columns", type=form.positive, default=20_000, help="of the store")
    add("--block-rows", type=form.positive, default=2_000, metavar="N", help="of a block")
    add("--components", type=form.positive, default=20, help="of the model")
    add("--solver", default="frequent_directions", help="of one pass")
    add("--scratch", type=form.local_path, metavar="DIR", help="for stores (default: the temporary folder)")
    with form.run(parser.parse_args(argv)) as run, form.scratch_folder(run.arguments.scratch) as folder:
        run.show(list(measure_requests(run, folder)))


def measure_requests(run: form.Run, folder: Path) -> Any:
    """Yield a row of the table for each request."""
    arguments, rng = run.arguments, np.random.default_rng(run.arguments.seed)
    n, sizes = arguments.rows, {"block_rows": arguments.block_rows, "seed": arguments.seed}
    rows = low_rank_counts(n, arguments.columns, arguments.components, **sizes).persist()
    whole = dspectral.write_counts(rows, str(folder / "whole"))
    model = partial(dspectral.SketchedPCA, arguments.components, solver=arguments.solver)
    model().fit(whole, checkpoints=str(folder / "parts"))
    first, one_percent = int(rng.integers(n - n // 100)), n // 100
    requests = {"1 row": [first]}
    for n_rows in dict.fromkeys((min(100, n // 20), one_percent)):
        requests[f"{n_rows} scattered rows"] = rng.choice(n, n_rows, replace=False).tolist()
        requests[f"{n_rows} consecutive rows"] = list(range(first, first + n_rows))
    for number, (name, request) in enumerate(requests.items()):
        url, parts = str(folder / f"store-{number}"), str(folder / f"parts-{number}")
        copytree(folder / "whole", url)
        copytree(folder / "parts", parts)
        receipt, *forgetting = measure(run, f"forget {name}", partial(dspectral.forget, url, request))
        store = dspectral.open_store(url)
        refit, *refitting = measure(run, f"refit without {name}", partial(model().fit, store, checkpoints=parts))
        others = write_others(rows, request, str(folder / f"others-{number}"))
        fitted, *fitting = measure(run, f"fit without {name}", partial(model().fit, others))
        same = all(
            np.array_equal(getattr(refit, part), getattr(fitted, part)) for part in ("components_", "singular_values_")
        )
        values = {
            "changed_blocks": len(receipt.blocks),
            "blocks": whole.n_blocks,
            **dict(zip(("forget_cpu_seconds", "forget_read_bytes"), forgetting, strict=True)),
            **dict(zip(("refit_cpu_seconds", "refit_read_bytes"), refitting, strict=True)),
            **dict(zip(("fit_cpu_seconds", "fit_read_bytes"), fitting, strict=True)),
            "same_bits": int(same),
        }
        run.rows(values, data=name, method=arguments.solver)
        yield {"rows": name, **values}


def measure(run: form.Run, step: str, work: Any) -> tuple[Any, float, int]:
    """Return the result of a function, its CPU seconds, and the bytes that it read from files."""
    process = psutil.Process()
    before = process.io_counters().read_chars
    with run.measure(step) as used:
        result = work()
    return result, used.cpu_seconds, process.io_counters().read_chars - before


def write_others(rows: da.Array, request: list[int], url: str) -> Any:
    """Write a store that never had some rows, with the same boundaries of blocks."""
    starts = np.cumsum([0, *rows.chunks[0]])
    remaining = np.setdiff1d(np.arange(rows.shape[0]), request)
    sizes = np.diff(np.searchsorted(remaining, starts))
    blocks = [
        da.from_delayed(
            block[remaining[a:b] - start], (b - a, rows.shape[1]), rows.dtype, meta=sparse.csr_array((0, 0))
        )
        for block, start, a, b in zip(
            rows.to_delayed()[:, 0], starts, np.cumsum([0, *sizes]), np.cumsum(sizes), strict=False
        )
        if b > a
    ]
    return dspectral.write_counts(da.concatenate(blocks), url)


if __name__ == "__main__":
    main()
