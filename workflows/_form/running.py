"""Runs of workflows: measuring, progress, and the report."""

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import dask
from distributed import Client, KilledWorker

from dspectral import ClusterError, RunPlan, checkpoints
from dspectral.engine import Callback, intercept_fits, plan
from dspectral.store import redact_urls
from dspectral.watch import Progress

from .messages import LOST, in_options, sentence
from .page import page
from .plots import png
from .report import Plot, Report, plain
from .schedulers import scheduler, worker_settings
from .table import print_table
from .usage import Meter, Used

QUIET_SECONDS = 3.0
"""Shorter steps show no progress."""
EXPECTED = (ValueError, OSError, ImportError, MemoryError, KilledWorker, ClusterError, *LOST)
"""Errors printed as one sentence; ``--debug`` shows the traceback."""

PLAN = "plan.json"
NOT_SHOWN = ("workflow", "description", "prog", "options")
"""Attributes of a namespace that are not options."""


class Run:
    """One run of a workflow with its report; :func:`run` creates it."""

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
        """Add a row to the report; ``fields`` are its settings."""
        self.report.rows.append({"data": data, "method": method, "metric": metric, "value": value, **fields})

    def rows(self, values: Mapping[str, float | str | None], *, data: str, method: str, **fields: Any) -> None:
        """Add a row for each metric, all with the same settings."""
        for metric, value in values.items():
            self.row(data=data, method=method, metric=metric, value=value, **fields)

    def detail(self, *, data: str, method: str, metric: str, value: float | str | None, **fields: Any) -> None:
        """Add a row that is not printed, for example of one of many intents."""
        self.report.details.append({"data": data, "method": method, "metric": metric, "value": value, **fields})

    def show(self, table: list[dict[str, Any]]) -> None:
        """Set the table to print and to show on the page instead of the rows."""
        self.report.table = table

    def answer(self, sentence: str) -> None:
        """Set the sentence at the top of the page."""
        self.report.answer = sentence

    def note(self, sentence: str) -> None:
        """Add a sentence to the report, and print it."""
        self.report.notes.append(sentence)
        print(sentence, flush=True)

    def plot(self, name: str, figure: Any, caption: str = "") -> None:
        """Add a figure of :func:`workflows._form.plots.new_plot` to the report, as ``NAME.png``."""
        self.report.plots.append(Plot(name, caption or name.replace("_", " "), png(figure)))

    def save(self, save: Callable[[Path], object]) -> None:
        """Set the function that writes the fitted model to ``model`` at the end."""
        self.saves = [save]

    def attach(self, name: str, content: str) -> None:
        """Add a file ``name`` beside the report."""
        self.attached[name] = content

    @contextmanager
    def measure(self, step: str) -> Iterator[Used]:
        """Measure the body of a ``with`` statement, shown as ``step`` in progress."""
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
    """Run the body of a ``with`` statement under the chosen scheduler, then write and print its report."""
    if arguments.plan:
        with _one_sentence(arguments), planned(arguments):
            yield Run(arguments, None, Progress(quiet_seconds=QUIET_SECONDS, keep_summaries=False))
        return
    with _one_sentence(arguments), unfinished(arguments.out) as folder:
        with (
            scheduler(arguments) as client,
            Progress(quiet_seconds=QUIET_SECONDS, keep_summaries=False) as progress,
            _RepeatCounter() as counter,
            _kept(arguments),
        ):
            result = Run(arguments, client, progress)
            with result.meter.measure() as used:
                yield result
            result.report.used = _used(result, used) | counter.counts
        _write(result, folder)
        publish(folder, arguments.out)
    if rows := result.report.table or result.report.rows:
        print_table(rows)
    print(f"report: {arguments.out / 'report.html'}")


def _kept(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    url = getattr(arguments, "keep", None)
    return nullcontext() if url is None else checkpoints(url)


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
        saved = getattr(arguments, "keep", None) or (arguments.store if "append" in arguments else None)
        advice = f"; the same command continues with what is finished in {saved}" if saved else ""
        message = f"interrupted; no report was written to {arguments.out}{advice}"
        print(f"{arguments.prog}: {message}", file=sys.stderr)
        raise SystemExit(130) from None
    except EXPECTED as error:
        if arguments.debug:
            raise
        print(f"{arguments.prog}: error: {sentence(error, arguments.options)}", file=sys.stderr)
        raise SystemExit(2) from None


class _RepeatCounter(Callback):
    """Count retries and recomputed tasks."""

    def __init__(self) -> None:
        self._n_retries = 0
        self._n_repeated: dict[str, int] = {}

    def on_task_retried(self, _event: Any) -> None:
        self._n_retries += 1

    def on_blocks_done(self, event: Any) -> None:
        self._n_repeated[event.run] = event.n_repeated

    @property
    def counts(self) -> dict[str, int]:
        """Fields of the report."""
        return {"retries": self._n_retries, "tasks_redone": sum(self._n_repeated.values())}


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
    """Write model, plots and report, without keys and passwords of URLs."""
    report = result.report
    shown = {name: redact_urls(plain(getattr(report, name))) for name in ("arguments", "rows", "details", "notes")}
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
    """Yield a temporary folder within ``out``, removed at the end."""
    existed = out.exists()
    if existed and not out.is_dir():
        raise NotADirectoryError(f"--out {out} must be a folder, but is a file")
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
    """Yield a temporary folder in ``parent`` (created if missing) or in that of the system, removed at the end."""
    if parent is not None:
        if parent.exists() and not parent.is_dir():
            raise NotADirectoryError(f"--scratch {parent} must be a folder, but is a file")
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dspectral-", dir=parent) as folder:
        yield Path(folder)


def publish(folder: Path, out: Path) -> None:
    """Move all files into ``out`` and replace existing ones; ``report.json`` is last."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "report.json"):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)


class Planned(Exception):  # noqa: N818  not an error: it ends a dry run
    """Carries the run plan of the first fit or build."""


@contextmanager
def planned(arguments: argparse.Namespace) -> Iterator[None]:
    """Plan the first fit or build of the body, print the plan, and write it to ``plan.json``."""

    def planner(function: Callable[..., Any], *given: Any, **keywords: Any) -> NoReturn:
        owner = given[0] if given and hasattr(given[0], "fit") else None
        what = function if owner is None else getattr(owner, function.__name__)
        rest = given if owner is None else given[1:]
        limit = arguments.memory_limit if arguments.workers else None
        raise Planned(plan(what, *rest, workers=arguments.workers, memory_limit=limit, **keywords))

    # A plan starts no workers, but uses those of --scheduler.
    where = scheduler(arguments) if arguments.scheduler else worker_settings(arguments.memory_limit)
    settings = {} if arguments.scheduler else {"scheduler": "threads"}
    try:
        with where, dask.config.set(settings), intercept_fits(planner):
            yield
    except Planned as found:
        _show(found.args[0], arguments)
    else:
        print("no run plan: the program fits and builds nothing")


def _show(found: RunPlan, arguments: argparse.Namespace) -> None:
    print(found)
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps(plain([found.as_dict()]), indent=2, allow_nan=False)
    (arguments.out / PLAN).write_text(content + "\n", encoding="utf-8")
    print(f"plan: {arguments.out / PLAN}; nothing was computed")
    if found.refusal:
        print(f"{arguments.prog}: error: {in_options(found.refusal, arguments.options)}", file=sys.stderr)
        raise SystemExit(2)
