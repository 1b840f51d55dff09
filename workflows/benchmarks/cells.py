"""Race from raw counts in a file to principal components under a memory limit, beside scanpy and CREST in memory.

Counts are drawn and written block by block. Each contender runs in a process of its own and on one thread: dspectral
under ``--data-limit``, the others under ``--peer-limit``. Singular values are held against double precision.
"""

import argparse
from contextlib import AbstractContextManager
from typing import Any

from dask.utils import parse_bytes

from .._form import form
from ._races.chain import CHAIN
from ._races.racing import Course, Lane, hold
from .races import report, section

NAME = "cells-chain"
"""Name of the race."""


def main(argv: list[str] | None = None) -> None:
    """Run the race for each number of cells."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        sections = [race(run, n_cells) for n_cells in (() if arguments.plan else arguments.cells)]
        run.attach("cells.md", "\n".join(sections))


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.cells", __doc__, fits=False)
    add, full = parser.add_argument, CHAIN.sizes["full"]
    add("--cells", type=form.positive, nargs="+", default=[full["rows"] // 10], metavar="N", help="one race for each")
    add("--genes", type=form.positive, default=full["columns"], help="of a cell")
    add("--filled", type=form.share, default=full["filled"], help="share of the entries that are not zero")
    add("--variable-genes", type=form.positive, default=full["genes"], metavar="N", help="genes to decompose")
    add("--components", type=form.positive, default=full["k"], metavar="K", help="principal components")
    add("--data-limit", type=form.memory_limit, default="2GB", metavar="SIZE", help="of the process of dspectral")
    about = "of the processes of the others (default: no limit)"
    add("--peer-limit", type=form.memory_limit, default="0", metavar="SIZE", help=about)
    about = "after which a contender is stopped"
    add("--limit", type=form.positive, default=3600, metavar="SECONDS", help=about)
    add("--scratch", type=form.local_path, help="folder for the data (default: the system's)")
    return parser


def race(run: form.Run, n_cells: int) -> str:
    """Draw the counts, run all contenders once, and report them; return a section of the page."""
    a, name = run.arguments, f"{n_cells} cells"
    size = {"rows": n_cells, "columns": a.genes, "filled": a.filled, "genes": a.variable_genes, "k": a.components}
    stages = []
    with form.scratch_folder(a.scratch) as scratch:
        for settings in (CHAIN.sizes["toy"], size):
            folder = scratch / str(len(stages))
            folder.mkdir()
            stages.append((folder, {"seed": a.seed, **settings}))
            with run.measure(f"{name}: draw the counts"):
                data = CHAIN.make(*stages[-1])

        def step(contender: str, _repetition: int) -> AbstractContextManager[Any]:
            return run.measure(f"{name}: {contender}")

        lanes: dict[str, Lane] = {}
        for contender, how in CHAIN.contenders.items():
            limit = a.data_limit if how.module == "dspectral" else a.peer_limit
            course = Course(NAME, CHAIN._replace(contenders={contender: how}), stages, a.limit, parse_bytes(limit))
            lanes |= hold(course, 1, step)
    run.note(f"{name}: {data}")
    report(run, name, lanes)
    return section(name, CHAIN.task, data, lanes)


if __name__ == "__main__":
    main()
