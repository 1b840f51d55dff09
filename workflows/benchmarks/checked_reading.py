"""What the checks of everything that is read cost, in CPU seconds of a pass over a store.

Each block that is read from a store is held against the checksums of its chunks, the digest in its mark, and the rule
that indices point inside. The same passes are run with these checks and with none of them, in turn, in one thread:
one product of a Krylov space, one sketch, and reading alone. Only this program can leave checks out.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import ANY, patch

import dask
import numpy as np

from dspectral import TruncatedSVD, open_store, write_counts
from dspectral.datasets import low_rank_counts

from .._form import form
from .._form.plots import new_plot

READING = "reading alone"
LIMIT = 0.1
"""Share of a pass that its checks may cost."""


class Cost(NamedTuple):
    """What the checks of one kind of pass cost.

    `checked, bare`: CPU seconds with the checks and without, pair by pair.
    """

    checked: list[float]
    bare: list[float]

    @property
    def shares(self) -> list[float]:
        """Return the cost of each pair as a share of the pass without checks, the least first."""
        return sorted(one / other - 1 for one, other in zip(self.checked, self.bare, strict=True))


def main(argv: list[str] | None = None) -> None:
    """Measure."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, tempfile.TemporaryDirectory() as folder:
        store = open_store(arguments.store) if arguments.store else generated(arguments, folder)
        run.note(f"{store.shape[0]:,} x {store.shape[1]:,}, {store.nnz:,} entries in {store.n_blocks} blocks")
        costs = {}
        for name, read in passes(arguments).items():
            with run.measure(name):
                costs[name] = measured(partial(read, store), arguments.repeats)
            report(run, store, name, costs[name])
        compare_with_reading(run, store, costs)
        draw(run, costs)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.checked_reading", __doc__)
    add = parser.add_argument
    add("--store", metavar="STORE", help="a store of counts (default: one is drawn)")
    add("--rows", type=form.positive, default=40_000, help="of the store that is drawn")
    add("--columns", type=form.positive, default=100_000, help="of the store that is drawn")
    add("--n-components", type=form.positive, default=50, help="directions that each pass looks for")
    add("--repeats", type=form.positive, default=7, help="pairs of passes with the checks and without")
    return parser


def generated(arguments: argparse.Namespace, folder: str) -> Any:
    """Draw counts, and write them to a store."""
    rows = low_rank_counts(arguments.rows, arguments.columns, min(20, arguments.columns), seed=arguments.seed)
    return write_counts(rows, str(Path(folder, "counts.zarr")))


def passes(arguments: argparse.Namespace) -> dict[str, Callable[[Any], object]]:
    """Return the passes, by their names."""
    k, seed = arguments.n_components, arguments.seed
    product = TruncatedSVD(k, solver="nystrom", random_state=seed)
    sketch = TruncatedSVD(k, solver="frequent_directions", sketch_size=2 * k, random_state=seed)
    return {"one Krylov product": product.fit, "one sketch": sketch.fit, READING: read_all}


def read_all(store: Any) -> None:
    """Read each block, and forget it."""
    for number in range(store.n_blocks):
        store.counts.blocks[number].compute()


def measured(one_pass: Callable[[], object], repeats: int) -> Cost:
    """Run a pass with the checks and without, in turn; which of them is first changes, too."""
    cost = Cost([], [])
    with dask.config.set(scheduler="synchronous"):
        one_pass()  # loops are compiled, files in the cache
        for repeat in range(repeats):
            for checked in (True, False) if repeat % 2 else (False, True):
                with ExitStack() as stack:
                    if not checked:
                        stack.enter_context(without_checks())
                    start = time.process_time()
                    one_pass()
                    (cost.checked if checked else cost.bare).append(time.process_time() - start)
    return cost


@contextmanager
def without_checks() -> Iterator[None]:
    """Leave out what is verified of each block: its digest, its structure, and the checksums of its chunks."""

    def unverified(_codec: object, chunk: Any, spec: Any) -> Any:
        return spec.prototype.buffer.from_array_like(chunk.as_numpy_array()[:-4])

    # Zarr's codec strips the four bytes of the checksum; ANY is equal to every digest.
    with (
        patch("dspectral.store.blocks.csr_fault", lambda *_arrays, **_how: ""),
        patch("dspectral.store.blocks.digest_of", lambda *_arrays: ANY),
        patch("zarr.codecs.crc32c_.Crc32cCodec._decode_sync", unverified),
    ):
        yield


def report(run: form.Run, store: Any, name: str, cost: Cost) -> None:
    """Add a row for the cost and for the seconds."""
    low, middle, high = np.quantile(cost.shares, [0.25, 0.5, 0.75])
    fields = {"entries": int(store.nnz), "repeats": len(cost.checked)}
    data = run.arguments.store or "drawn"
    spread = {"lower_quartile": round(float(low), 4), "upper_quartile": round(float(high), 4)}
    run.row(
        data=data, method=name, metric="cost_of_checks", value=round(float(middle), 4), **spread, **fields
    )
    for kind, seconds in cost._asdict().items():
        value = round(statistics.median(seconds), 4)
        run.row(data=data, method=name, metric=f"cpu_seconds_{kind}", value=value, **fields)
    run.note(
        f"{name}: {middle:.1%} of the pass ({low:.1%} to {high:.1%}); {LIMIT:.0%} is the limit of a pass"
    )
    run.passes += 2 * len(cost.checked) + 1


def compare_with_reading(run: form.Run, store: Any, costs: dict[str, Cost]) -> None:
    """Add what the checks cost where nothing else is done, as a share of each pass: the rest of a pass is no noise."""
    reading = costs[READING]
    seconds = statistics.median(one - other for one, other in zip(reading.checked, reading.bare, strict=True))
    for name, cost in costs.items():
        share = seconds / statistics.median(cost.bare)
        run.row(
            data=run.arguments.store or "drawn",
            method=name,
            metric="checks_of_reading_over_pass",
            value=round(share, 4),
            entries=int(store.nnz),
            repeats=len(cost.checked),
        )
        run.note(f"{name}: {seconds:.3g} s of checks while reading are {share:.1%} of the pass")


def draw(run: form.Run, costs: dict[str, Cost]) -> None:
    """Draw the costs."""
    figure, axes = new_plot("Cost of the checks", x="share of the pass without them", y="")
    axes.barh(list(costs), [statistics.median(cost.shares) for cost in costs.values()])
    axes.axvline(LIMIT, linestyle="--", color="gray")
    axes.invert_yaxis()
    run.plot("cost_of_checks", figure, "CPU seconds of the checks, as a share of a pass without them.")


if __name__ == "__main__":
    main()
