"""Draw ``docs/images/machines-*.svg`` of the page on a thousand machines, or print its table of losses.

``python tools/draw_machines.py`` draws, ``python tools/draw_machines.py --losses`` prints. The times are those that
``python -m workflows.benchmarks.tree_simulation`` measured for the page, written down here, so that the same pictures
and the same rows come out on every machine.
"""

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from draw_figures import BLUE, GREEN, IMAGES, ORANGE, PURPLE, STYLE

sys.path.insert(0, str(Path(__file__).parent.parent))

from workflows.benchmarks._tree.events import simulate
from workflows.benchmarks._tree.pictures import at_work
from workflows.benchmarks._tree.probe import Law
from workflows.benchmarks._tree.settings import Settings, least_seconds

ROWS, COLUMNS, SKETCH_ROWS = 17_032_086_719, 1 << 20, 200
LAW = Law(SKETCH_ROWS, 10, 3.03e-7, 2.506e-5, 2.57e-8, 2.86, {2: (0.0, 4.675e-6)}, (0.0, 9.5e-7), -0.064)
BLOCK_ROWS = 2_000_000
LOSSES = (
    (0.01, 5, None), (0.1, 5, None), (1, 5, None), (3, 5, None), (3, 5, 4), (0.1, 120, None), (0.1, 300, None),
    (1, 300, None),
)  # fmt: skip
"""Losses of each machine in an hour, seconds until one is known, and the level from which summaries are kept."""
SEEDS = range(5)
"""Of the passes of each row of losses."""


def main() -> None:
    """Print the rows of losses if they are asked for, else write all pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--losses", action="store_true", help="print the table of lost machines, draw nothing"
    )
    if parser.parse_args().losses:
        losses()
        return
    with plt.rc_context(STYLE):
        for draw in (work, blocks, links):
            plt.close("all")
            draw()
            path = IMAGES / f"machines-{draw.__name__}.svg"
            plt.savefig(path, metadata={"Date": None})
            print(path)


def settings(block_rows: float = BLOCK_ROWS, **changes: float) -> Settings:
    """Return the settings of the page, but for what is named."""
    found = Settings(
        n_blocks=-(-ROWS // int(block_rows)), machines=1000,
        block_seconds=LAW.block_seconds(block_rows, COLUMNS), merge_seconds=LAW.merge_seconds(COLUMNS, 2),
        summary_bytes=4 * SKETCH_ROWS * COLUMNS, scheduler_seconds=0.0011, overhead_seconds=0.004,
        start_seconds=0.0003, latency=0.001, bandwidth=1.25e9, spread=0.2, slow_share=0.01, slow_factor=3.0,
        failures=0.01, notice_seconds=5.0,
    )  # fmt: skip
    return found._replace(**changes)  # type: ignore[arg-type]


def losses() -> None:
    """Print rows of passes that lose machines, the last solve included: the middle seed, and the least and the most."""
    print(
        "| lost in an hour | known after, s | kept from level | machines lost | tasks done again | seconds |"
    )
    print("|---|---|---|---|---|---|")
    for failures, notice, level in LOSSES:
        lossy = settings(failures=failures, notice_seconds=notice)._replace(keep_level=level)
        outcomes = [simulate(lossy._replace(seed=seed)) for seed in SEEDS]
        seconds = [one.seconds + LAW.solve_seconds(COLUMNS) for one in outcomes]
        cells = [
            f"{np.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"
            for values in ([one.n_lost for one in outcomes], [one.n_redone for one in outcomes], seconds)
        ]
        print(
            "|",
            " | ".join([str(failures), str(notice), "none" if level is None else str(level), *cells]),
            "|",
        )


def work() -> None:
    """Draw machines that summarize and machines that merge, over time."""
    outcome = simulate(settings())
    edges = np.linspace(0.0, outcome.seconds, 300)
    busy = [at_work(outcome, edges, outcome.levels == 0), at_work(outcome, edges, outcome.levels > 0)]
    _, ax = plt.subplots()
    ax.stackplot(edges[:-1], *busy, labels=["blocks", "merges"], colors=[BLUE, ORANGE], lw=0)
    ax.set(xlabel="seconds", ylabel="machines at work")
    ax.legend(frameon=False)


def blocks() -> None:
    """Draw minutes against the rows of a block."""
    rows = [125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000]
    points = [settings(block_rows=one) for one in rows]
    outcomes = [simulate(one) for one in points]
    _, ax = plt.subplots()
    ax.loglog(rows, [one.seconds / 60 for one in outcomes], "o-", ms=4, label="all", color=BLUE)
    ax.loglog(
        rows, [least_seconds(one)["work"] / 60 for one in points], label="work over machines", color=GREEN
    )
    ax.loglog(rows, [one.scheduler_seconds / 60 for one in outcomes], label="scheduler", color=ORANGE)
    ax.loglog(rows, [one.tail_seconds / 60 for one in outcomes], label="after the last block", color=PURPLE)
    ax.set(xlabel="rows of a block", ylabel="minutes")
    ax.legend(frameon=False, fontsize=8)


def links() -> None:
    """Draw minutes against the number of machines, for three links."""
    machines = [30, 100, 300, 1000, 3000, 10_000]
    _, ax = plt.subplots()
    for bandwidth, label in ((1.25e7, "0.1 Gbit/s"), (1.25e8, "1 Gbit/s"), (1.25e9, "10 Gbit/s")):
        outcomes = [simulate(settings(machines=one, bandwidth=bandwidth)) for one in machines]
        ax.loglog(machines, [one.seconds / 60 for one in outcomes], "o-", ms=4, label=label)
    ax.set(xlabel="machines", ylabel="minutes")
    ax.legend(frameon=False)


if __name__ == "__main__":
    main()
