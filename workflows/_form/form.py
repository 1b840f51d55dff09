"""Options and report that all workflows share.

A workflow is a module with a ``main``::

    from ._form import form

    def options() -> form.Parser:
        parser = form.parser("spectrum", __doc__)
        parser.add_argument("store", help="a counts store")
        return parser

    form.check_options(__name__, options)  # errors and --help exit here, before slow imports

    from dspectral import SketchedPCA, open_store

    def main(argv: list[str] | None = None) -> None:
        with form.run(options().parse_args(argv)) as run:
            store = open_store(run.arguments.store)
            pca = SketchedPCA(100, random_state=run.arguments.seed)
            used = run.fit("sketch", pca, store)
            run.row(data="news", method="sketch", metric="seconds", value=used.seconds, rows=store.n_rows)
            run.plot("spectrum", figure, "Singular values, largest first.")
            run.save(pca.save)

It ends in ``if __name__ == "__main__": main()``, for ``python -m`` and worker processes. The command ``dspectral``
lists modules with a ``main``.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import Parser, bits, check_options, local_path, memory_limit, positive, share

if TYPE_CHECKING:
    from .running import EXPECTED, Run, run, scratch_folder

__all__ = [
    "EXPECTED",
    "Parser",
    "Run",
    "bits",
    "check_options",
    "local_path",
    "parser",
    "positive",
    "run",
    "scratch_folder",
    "share",
]


def __getattr__(name: str) -> Any:
    """Import Dask and the library with the first name of `running`, after the options were read."""
    return getattr(import_module(".running", __package__), name)


def parser(name: str, description: str | None, *, fits: bool = True) -> Parser:
    """Return a parser with the options of all workflows; a workflow adds its own."""
    result = Parser(name, description)
    result.set_defaults(workflow=name, description=" ".join((description or "").split("\n\n")[0].split()))
    shared = result.add_argument_group("in every program")
    shared.add_argument(
        "--out",
        type=local_path,
        default=Path("out", *name.split(".")),
        metavar="DIR",
        help="for report and model",
    )
    where = shared.add_mutually_exclusive_group()
    threads = "number of worker processes to start (default: none, threads of this process)"
    where.add_argument("--workers", type=positive, metavar="N", help=threads)
    cluster = "address of a Dask cluster to use (default: this machine)"
    where.add_argument("--scheduler", metavar="ADDRESS", help=cluster)
    memory = "of each started worker, for example 2GB; auto is an equal share of the memory, 0 no limit"
    shared.add_argument("--memory-limit", type=memory_limit, default="auto", metavar="SIZE", help=memory)
    if fits:
        kept = "folder or URL of checkpoints, from which an interrupted command continues (default: none)"
        shared.add_argument("--keep", metavar="URL", help=kept)
    shared.add_argument("--plan", action="store_true", help="print the run plan without running")
    shared.add_argument("--seed", type=int, default=0, help="random seed")
    shared.add_argument("--debug", action="store_true", help="show the traceback of every error")
    return result
