"""Race dspectral against the libraries that do the same: SVD, text, words and labels.

Contenders of a race work on the same data, in turn, each in a process of its own and on one thread, as often as asked
for; who is not installed is a row that says so. Measured are CPU and wall seconds, the peak memory of the process (and
of that what it took beside libraries and practice on toy data), and how well it did. Ratios of CPU seconds are over
the first contender, within a repetition: their median and quartiles. Data is drawn from known models, or is text of the
standard library, or of files that are named.
"""

import argparse
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_bytes

from .._form import form
from .._form.plots import COLOURS, new_plot
from .._form.table import quantity
from ._defaults.sets import MULTILABEL
from ._races.contender import RACES
from ._races.racing import Course, Lane, hold, ratios

COSTS = ("cpu_seconds", "seconds", "peak_memory_bytes", "working_memory_bytes")
TITLES = {
    "cpu_seconds": "CPU s",
    "seconds": "wall s",
    "peak_memory_bytes": "memory",
    "working_memory_bytes": "of that its own",
}
SIZES = ("toy", "small", "middle", "full")


def main(argv: list[str] | None = None) -> None:
    """Run the races."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, dask.config.set(scheduler="synchronous"):
        sections, many = [], {}
        for name in () if arguments.plan else arguments.races:  # processes of their own have nothing to plan here
            for of in MULTILABEL if arguments.data and name == "labels" else ("",):
                with form.scratch_folder(arguments.scratch) as scratch:
                    text, lanes = one_race(run, name, of, scratch)
                    sections.append(text)
                    many |= {of: lanes} if of else {}
        sections += [together(many)] if many else []
        heading = f"# Races\n\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} processors.\n"
        run.attach("races.md", "\n".join([heading, *sections]))


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.races", __doc__, fits=False)
    add = parser.add_argument
    add("--races", nargs="+", choices=tuple(RACES), default=list(RACES), metavar="NAME", help=", ".join(RACES))
    add("--repetitions", type=form.positive, default=5, metavar="N", help="of each race")
    add("--size", choices=SIZES, default="small", help="of the data; small takes a few seconds a contender")
    add("--text", nargs="+", metavar="FILE", help="a document a line, also .gz (default: Python's docstrings)")
    about = "folder of data sets with many labels, one race each (default: documents that are drawn)"
    add("--data", metavar="DIR", help=about)
    about = "after which a contender is stopped"
    add("--limit", type=form.positive, default=600, metavar="SECONDS", help=about)
    about = "of a contender's process; one that needs more ends (default: no limit)"
    add("--data-limit", type=form.memory_limit, default="0", metavar="SIZE", help=about)
    add("--scratch", type=form.local_path, help="folder for the data (default: the system's)")
    return parser


def one_race(run: form.Run, race_name: str, of: str, scratch: Path) -> tuple[str, dict[str, Lane]]:
    """Make the data, run a race, and report it; return its section of the page, and what each contender did."""
    arguments, race, name = run.arguments, RACES[race_name], f"{race_name} {of}".strip()
    with run.measure(f"{name}: make the data"):
        course, data = prepared(race_name, of, arguments, scratch)

    def step(contender: str, repetition: int) -> AbstractContextManager[Any]:
        return run.measure(f"{name}, {repetition + 1}/{arguments.repetitions}: {contender}")

    load = os.getloadavg()[0]
    lanes = hold(course, arguments.repetitions, step)
    busy = f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    run.note(f"{name}: {data}; {busy}")
    report(run, name, lanes)
    return section(name, race.task, f"{data}; {len(lanes)} contenders, {busy}", lanes), lanes


def prepared(name: str, of: str, arguments: argparse.Namespace, scratch: Path) -> tuple[Course, str]:
    """Write the data, and the toy data to practice on."""
    stages, data, race = [], "", RACES[name]
    for size in dict.fromkeys(("toy", arguments.size)):
        folder = scratch / size
        folder.mkdir()
        settings = {"seed": arguments.seed, "text": arguments.text, **race.sizes[size]}
        if size != "toy":
            settings |= {"data": str(arguments.data), "of": of}
        data = race.make(folder, settings)
        stages.append((folder, settings))
    return Course(name, race, stages, arguments.limit, parse_bytes(arguments.data_limit)), data


def report(run: form.Run, name: str, lanes: dict[str, Lane]) -> None:
    """Add rows, each repetition as a detail, and a plot."""
    for method, values in values_of(lanes).items():
        run.rows(values, data=name, method=method)
    for method, lane in lanes.items():
        for once in lane.runs:
            fields = {"data": name, "method": method, "repetition": once["repetition"]}
            for metric in metrics_of(lane):
                run.detail(metric=metric, value=once[metric], **fields)
        if lane.out:
            run.note(f"{name}: {method}: {lane.out}")
    draw(run, name, {method: lane for method, lane in lanes.items() if lane.runs})


def draw(run: form.Run, name: str, lanes: dict[str, Lane]) -> None:
    """Draw CPU seconds and the ratio of each contender."""
    if not lanes:
        return
    first = next(iter(lanes.values()))
    figure, axes = new_plot(name, x="CPU seconds", y="")
    for i, (method, lane) in enumerate(lanes.items()):
        bar = axes.barh(method, lane.middle("cpu_seconds"), color=COLOURS[int(method.startswith("dspectral"))])
        axes.bar_label(bar, [f"{ratios(lane, first)[1]:.2g} x" if i else ""], padding=3)
    axes.invert_yaxis()
    run.plot(name, figure, f"CPU seconds of {name}; beside each bar how many times those of the first.")


def values_of(lanes: Mapping[str, Lane]) -> dict[str, dict[str, Any]]:
    """Return the metrics of each contender: medians, and the quartiles of the ratio."""
    first, found = next(iter(lanes.values())), {}
    for name, lane in lanes.items():
        found[name] = values = {metric: lane.middle(metric) for metric in metrics_of(lane)}
        if lane.runs:
            low, middle, high = ratios(lane, first)
            quartiles = {"cpu_ratio_lower_quartile": low, "cpu_ratio_upper_quartile": high}
            values |= {"cpu_ratio": middle, **quartiles, "repetitions": len(lane.runs)}
        if lane.out:
            values["not_run"] = lane.out
    return found


def metrics_of(lane: Lane) -> list[str]:
    """Return the metrics of a lane's runs, costs first."""
    return [metric for run in lane.runs[:1] for metric in run if metric != "repetition"]


def section(name: str, task: str, data: str, lanes: Mapping[str, Lane]) -> str:
    """Return a race as a section of a page in Markdown."""
    first = next(iter(lanes))
    scores = list(dict.fromkeys(m for lane in lanes.values() for m in metrics_of(lane) if m not in COSTS))
    heads = [
        "",
        *TITLES.values(),
        f"CPU over {first} (quartiles)",
        *(score.replace("_", " ") for score in scores),
    ]
    lines = [f"## {name}", "", f"{task} {data}.", "", _line(heads), _line(["---"] * len(heads))]
    for contender, lane in lanes.items():
        if not lane.runs:
            lines.append(_line([contender, lane.out, *[""] * (len(heads) - 2)]))
            continue
        low, middle, high = ratios(lane, lanes[first])
        ratio = "1" if contender == first else f"{middle:.3g} ({low:.3g} to {high:.3g})"
        costs = [quantity(metric, round(lane.middle(metric), 3)) for metric in COSTS]
        own = [quantity(score, lane.middle(score)) for score in scores]
        ended = f"{contender}; {lane.out}" if lane.out else contender
        lines.append(_line([ended, *costs, ratio, *own]))
    return "\n".join([*lines, ""])


def together(many: dict[str, dict[str, Lane]]) -> str:
    """Return all data sets with many labels as one table."""
    lines = [_line(["precision at 1 / auc / CPU s", *many]), _line(["---"] * (1 + len(many)))]
    for contender in next(iter(many.values())):
        lanes = [lanes[contender] for lanes in many.values()]
        cells = [
            f"{lane.middle('precision_at_1'):.3f} / {lane.middle('auc'):.3f} / {lane.middle('cpu_seconds'):.2f}"
            if lane.runs
            else lane.out
            for lane in lanes
        ]
        lines.append(_line([contender, *cells]))
    return "\n".join(["## many labels", "", *lines, ""])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
