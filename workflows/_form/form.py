"""The one form of all workflows: the same options, the same report.

A workflow is a module with a ``main``::

    def main(argv: list[str] | None = None) -> None:
        parser = form.parser("spectrum", __doc__)
        parser.add_argument("store", help="a counts store")
        with form.run(parser.parse_args(argv)) as run:
            store = open_store(run.arguments.store)
            pca = SketchedPCA(100, random_state=run.arguments.seed)
            used = run.fit("sketch", pca, store)
            run.row(data="news", method="sketch", metric="seconds", value=used.seconds, rows=store.n_rows)
            run.plot("spectrum", figure, "Singular values, largest first.")
            run.save(pca.save)

It ends in ``if __name__ == "__main__": main()``, which ``python -m`` and worker processes need. The command
``dspectral`` finds it by its ``main``.
"""

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import dask
from distributed import Client, KilledWorker

from dspectral import ClusterError, RunPlan, keep
from dspectral.engine import listening, only_planned, plan
from dspectral.store import without_secrets
from dspectral.watch import Progress

from .messages import LOST, in_options, sentence
from .options import Parser, bits, local_path, memory_limit, positive, share
from .page import page
from .plots import png
from .report import Plot, Report, plain
from .schedulers import scheduler, worker_settings
from .table import print_table
from .usage import Meter, Used

__all__ = ["EXPECTED", "Run", "bits", "local_path", "parser", "positive", "run", "scratch_folder", "share"]

QUIET_SECONDS = 3.0
"""A step that ends sooner shows no progress."""
EXPECTED = (ValueError, OSError, ImportError, MemoryError, KilledWorker, ClusterError, *LOST)
"""Errors that come of what was asked for: a sentence says what; ``--debug`` shows where."""

PLAN = "plan.json"
NOT_SHOWN = ("workflow", "description", "prog", "options")
"""What a namespace holds besides the values of options."""


def parser(name: str, description: str | None, *, fits: bool = True) -> Parser:
    """Return a parser with the options that all workflows share; a workflow adds its data."""
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
    threads = "start N worker processes for the work (default: none, threads of this process do it)"
    where.add_argument("--workers", type=positive, metavar="N", help=threads)
    cluster = "work on the Dask cluster with this address (default: on this machine)"
    where.add_argument("--scheduler", metavar="ADDRESS", help=cluster)
    memory = "of each worker started, 2GB for instance; auto is an equal share of this machine's memory, 0 no limit"
    shared.add_argument("--memory-limit", type=memory_limit, default="auto", metavar="SIZE", help=memory)
    if fits:
        kept = "for finished parts of fits, from which the same command goes on if it is cut short (default: none)"
        shared.add_argument("--keep", metavar="URL", help=kept)
    shared.add_argument("--plan", action="store_true", help="say what it would take, run nothing")
    shared.add_argument("--seed", type=int, default=0, help="of everything random")
    shared.add_argument("--debug", action="store_true", help="show the traceback of every error")
    return result


class Run:
    """One run of a workflow, from its start to its report; made by :func:`run`."""

    def __init__(self, arguments: argparse.Namespace, client: Client | None, progress: Progress) -> None:
        self.arguments = arguments
        self.client = client
        self.passes = 0
        self.meter = Meter(client)
        self.saves: list[Callable[[Path], object]] = []
        self.attached: dict[str, str] = {}
        self._progress = progress
        shown = {k: v for k, v in vars(arguments).items() if k not in NOT_SHOWN}
        self.report = Report(arguments.workflow, arguments.description, shown)

    def row(self, *, data: str, method: str, metric: str, value: float | str | None, **fields: Any) -> None:
        """Add a row to the report; ``fields`` say under which settings it holds."""
        self.report.rows.append({"data": data, "method": method, "metric": metric, "value": value, **fields})

    def rows(
        self, values: Mapping[str, float | str | None], *, data: str, method: str, **fields: Any
    ) -> None:
        """Add a row for each metric of some values, all under the same settings."""
        for metric, value in values.items():
            self.row(data=data, method=method, metric=metric, value=value, **fields)

    def detail(
        self, *, data: str, method: str, metric: str, value: float | str | None, **fields: Any
    ) -> None:
        """Add a row that is not printed: one of many, each intent's for instance."""
        self.report.details.append(
            {"data": data, "method": method, "metric": metric, "value": value, **fields}
        )

    def show(self, table: list[dict[str, Any]]) -> None:
        """Print a table for persons, which the report's page shows too, in place of the rows."""
        self.report.table = table

    def answer(self, sentence: str) -> None:
        """Say in a sentence what the run found: the report's page opens with it; the last one counts."""
        self.report.answer = sentence

    def note(self, sentence: str) -> None:
        """Add a sentence to the report, and print it."""
        self.report.notes.append(sentence)
        print(sentence, flush=True)

    def plot(self, name: str, figure: Any, caption: str = "") -> None:
        """Add a figure to the report, as ``NAME.png``; :func:`workflows._form.plots.new_plot` begins one."""
        self.report.plots.append(Plot(name, caption or name.replace("_", " "), png(figure)))

    def save(self, save: Callable[[Path], object]) -> None:
        """Let ``save(path)`` write the fitted model to the run's ``model``, once the workflow is done."""
        self.saves = [save]

    def attach(self, name: str, content: str) -> None:
        """Put a page of the workflow's own beside the report, as file ``name``."""
        self.attached[name] = content

    @contextmanager
    def measure(self, step: str) -> Iterator[Used]:
        """Measure the body of a ``with``, which progress shows as ``step``."""
        with self._progress.step(step), self.meter.measure() as used:
            yield used

    def fit(self, step: str, model: Any, *data: Any) -> Used:
        """Fit a model as a step, and count its passes."""
        with self.measure(step) as used:
            model.fit(*data)
        self.passes += model.n_passes_
        return used


@contextmanager
def run(arguments: argparse.Namespace) -> Iterator[Run]:
    """Run the body of a ``with`` under the scheduler asked for, then write and print its report."""
    if arguments.plan:
        with _one_sentence(arguments), planned(arguments):
            yield Run(arguments, None, Progress(None, quiet_seconds=QUIET_SECONDS, summaries=False))
        return
    with _one_sentence(arguments), unfinished(arguments.out) as folder:
        with (
            scheduler(arguments) as client,
            Progress(client, quiet_seconds=QUIET_SECONDS, summaries=False) as progress,
            listening(
                partial(_count_again, counts=(again := {"retries": 0, "tasks_redone": 0})), everywhere=True
            ),
            _kept(arguments),
        ):
            result = Run(arguments, client, progress)
            with result.meter.measure() as used:
                yield result
            result.report.used = _used(result, used) | again
        _write(result, folder)
        publish(folder, arguments.out)
    if rows := result.report.table or result.report.rows:
        print_table(rows)
    print(f"report: {arguments.out / 'report.html'}")


def _kept(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    url = getattr(arguments, "keep", None)
    return nullcontext() if url is None else keep(url)


@contextmanager
def _one_sentence(arguments: argparse.Namespace) -> Iterator[None]:
    def warn(message: Warning | str, *_where: object) -> None:
        print(f"{arguments.prog}: warning: {in_options(str(message), arguments.options)}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            if not arguments.debug:
                warnings.showwarning = warn
            yield
    except KeyboardInterrupt:
        print(f"{arguments.prog}: interrupted, nothing is written to {arguments.out}", file=sys.stderr)
        raise SystemExit(130) from None
    except EXPECTED as error:
        if arguments.debug:
            raise
        print(f"{arguments.prog}: error: {sentence(error, arguments.options)}", file=sys.stderr)
        raise SystemExit(2) from None


def _count_again(event: Any, *, counts: dict[str, int]) -> None:
    """Count what was done more than once, by the names of events."""
    kind = type(event).__name__
    if kind == "TaskRetried":
        counts["retries"] += 1
    elif kind == "TasksRecomputed":
        counts["tasks_redone"] += event.n_tasks


def _used(result: Run, used: Used) -> dict[str, Any]:
    since = "the run began" if result.meter.resets else "each process began"
    return {
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        "passes": result.passes,
        "peak_memory_bytes": used.peak_memory_bytes,
        "memory": {"since": since, "processes": used.peaks},
        "workers_lost": used.workers_lost,
    }


def _write(result: Run, folder: Path) -> None:
    """Write model, plots and report, which name no key or password that stood in an address."""
    report = result.report
    shown = {
        name: without_secrets(plain(getattr(report, name)))
        for name in ("arguments", "rows", "details", "notes")
    }
    report = replace(report, **shown)
    for save in result.saves:
        save(folder / "model")
    for name, content in result.attached.items():
        (folder / name).write_text(content, encoding="utf-8")
    for plot in report.plots:
        (folder / f"{plot.name}.png").write_bytes(plot.png)
    (folder / "report.html").write_text(page(report), encoding="utf-8")
    (folder / "report.json").write_text(report.as_json(), encoding="utf-8")


@contextmanager
def unfinished(out: Path) -> Iterator[Path]:
    """Yield a folder within ``out`` that is gone afterwards, whatever happens."""
    existed = out.exists()
    if existed and not out.is_dir():
        raise NotADirectoryError(f"--out {out} is a file, but a folder is needed")
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=out))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        if not existed and not any(out.iterdir()):
            out.rmdir()


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a new folder that is gone afterwards, in the system's place, or in ``parent``, made where it is missing."""
    if parent is not None:
        if parent.exists() and not parent.is_dir():
            raise NotADirectoryError(f"--scratch {parent} is a file, but a folder is needed")
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dspectral-", dir=parent) as folder:
        yield Path(folder)


def publish(folder: Path, out: Path) -> None:
    """Move everything into ``out``, in place of what was there; ``report.json`` last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "report.json"):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)


class Planned(Exception):  # noqa: N818  no error: it ends a program that is only planned
    """Holds the plan of the first fit or build: what follows needs its result."""


@contextmanager
def planned(arguments: argparse.Namespace) -> Iterator[None]:
    """Plan the first fit or build of the body, print the plan, and write it to ``plan.json``."""

    def planner(function: Callable[..., Any], *given: Any, **keywords: Any) -> NoReturn:
        owner = given[0] if given and hasattr(given[0], "fit") else None
        what = function if owner is None else getattr(owner, function.__name__)
        rest = given if owner is None else given[1:]
        limit = arguments.memory_limit if arguments.workers else None
        raise Planned(plan(what, *rest, workers=arguments.workers, memory_limit=limit, **keywords))

    # Workers are only asked where they are there already: none is started for a plan.
    where = scheduler(arguments) if arguments.scheduler else worker_settings(arguments.memory_limit)
    settings = {} if arguments.scheduler else {"scheduler": "threads"}
    try:
        with where, dask.config.set(settings), only_planned(planner):
            yield
    except Planned as found:
        _show(found.args[0], arguments)
    else:
        print("there is nothing to plan: the program fits and builds nothing from its data")


def _show(found: RunPlan, arguments: argparse.Namespace) -> None:
    print(found)
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps(plain([found.as_dict()]), indent=2, allow_nan=False)
    (arguments.out / PLAN).write_text(content + "\n", encoding="utf-8")
    print(f"plan: {arguments.out / PLAN}; nothing was run")
    if found.refusal:
        print(f"{arguments.prog}: error: {in_options(found.refusal, arguments.options)}", file=sys.stderr)
        raise SystemExit(2)
