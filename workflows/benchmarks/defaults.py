"""What a person gets without tuning: defaults beside tuned settings, and those of the paper.

For each family of methods and each data set the constructor's defaults, the best of a grid by rows held out of the
training side, and the settings of the paper learn from the training side and are scored on the test side. Defaults were
designed on every other data set by name; what counts is the other half. `--data` is a folder of data sets: for many
labels `multilabel/NAME/{train,test,all}.txt.gz`, `multilabel/goemotions/{train,test}.tsv.gz` and
`reuters21578/modapte_{train,test}.jsonl.gz`; for texts these, `intent`, `sentiment`, `sentences`, `sms_spam` and
`newsgroups20`; for word vectors `corpus/mix6m.txt.gz`, `wordsim/*.tsv` and `analogy/*.tsv.gz`; for word classes
`pos/NAME/*.conll.gz`; for sequences these, `ner/NAME/{train,test}.conll.gz`, slots in `intent/atis` and recordings in
`fsdd`.
"""

import argparse
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from .._form import form
from .._form.plots import new_plot
from ._defaults.families import FAMILIES, Family, Grid
from ._defaults.sets import RULE, Data, Part, designed_on

ENOUGH = 0.99
"""Share of the tuned figure that a default is to reach."""


class Found(NamedTuple):
    """Scores of one way on one data set, with what was chosen and the CPU seconds of the last fit."""

    settings: str
    cpu_seconds: float
    scores: dict[str, float]


def main(argv: list[str] | None = None) -> None:
    """Learn in each way from each data set, and hold the default against the tuned one."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        run.note(f"Split: {RULE}.")
        for name in arguments.methods:
            with TemporaryDirectory(prefix="dspectral-") as scratch:
                compare(run, name, FAMILIES[name], scratch)
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.defaults", __doc__)
    add = parser.add_argument
    add("--data", type=form.local_path, required=True, metavar="DIR", help="folder of the data sets")
    families, names = list(FAMILIES), sorted({name for family in FAMILIES.values() for name in family.sets})
    add("--methods", nargs="+", choices=families, default=families, metavar="FAMILY", help="to compare")
    add("--sets", nargs="+", choices=names, default=names, metavar="NAME", help="data sets (default: all)")
    return parser


def compare(run: form.Run, name: str, family: Family, scratch: str) -> None:
    """Report one family: each way on each data set, and how much of the tuned figures the defaults reach."""
    designed, shares, fits = designed_on(family.sets), dict[str, float](), Fits(run, family)
    for data in [one for one in family.sets if one in run.arguments.sets]:
        half = "designed on" if data in designed else "reported"
        with run.measure(f"{data}: read"):
            read = family.read(run.arguments.data, data, scratch, run.arguments.seed)
        with run.measure(f"{data}: compile"):  # so that no way pays for it
            family.learn(family.make("default", first_of(family.ways["default"]), 0), read.choose[0])
        found = {way: fits.found(way, grid, read, data) for way, grid in family.ways.items()}
        fields = {"data": data, "family": name, "half": half}
        for way, one in found.items():
            values = {**one.scores, "cpu_seconds": one.cpu_seconds}
            run.rows(values, method=way, settings=one.settings, **fields)
        default, tuned = found["default"], found["tuned"]
        reached = {metric: default.scores[metric] / best for metric, best in tuned.scores.items()}
        times = {"cpu_seconds": default.cpu_seconds / max(tuned.cpu_seconds, 1e-9)}
        for metric, value in {**reached, **times}.items():
            run.row(method="default", metric=f"share_of_tuned_{metric}", value=value, settings="", **fields)
        if half == "reported":
            shares[data] = min(reached.values())
    if shares:
        worst = min(shares, key=lambda data: shares[data])
        run.answer(
            f"On {sum(share >= ENOUGH for share in shares.values())} of {len(shares)} data sets that it was not "
            f"designed on, the default of `{name}` reaches {ENOUGH:.0%} of the tuned figures or more; the least is "
            f"{shares[worst]:.1%}, on {worst}."
        )


def first_of(grid: Grid) -> dict[str, Any]:
    """Return the first settings of a grid."""
    return {name: values[0] for name, values in grid.items()}


class Fits:
    """Models of a family: a fit of the same rows with the same settings is made once."""

    def __init__(self, run: form.Run, family: Family) -> None:
        self.run, self.family = run, family
        self.made: dict[tuple[int, str, str], tuple[Part, Any, float]] = {}

    def of(self, way: str, settings: dict[str, Any], part: Part, what: str) -> tuple[Any, float]:
        """Return a fitted model and its CPU seconds."""
        key = (id(part.X), way, repr(settings))
        if key not in self.made:
            with self.run.measure(what) as used:
                model = self.family.learn(self.family.make(way, settings, self.run.arguments.seed), part)
            self.run.passes += int(getattr(model, "n_passes_", 0))
            self.made[key] = part, model, used.cpu_seconds
        return self.made[key][1:]

    def found(self, way: str, grid: Grid, data: Data, name: str) -> Found:
        """Choose settings by the sum of the scores of what is held out, learn from all, and score the test side."""
        tried = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

        def reached(settings: dict[str, Any]) -> float:
            model, _ = self.of(way, settings, data.choose[0], f"{name}: {way}, {said(settings)}")
            return sum(self.family.score(model, data.choose[1]).values())

        chosen = max(tried, key=reached) if len(tried) > 1 else tried[0]
        model, seconds = self.of(way, chosen, data.final[0], f"{name}: {way}")
        return Found(said(chosen), seconds, self.family.score(model, data.final[1]))


def said(settings: dict[str, Any]) -> str:
    """Return settings as a person reads them."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def plot(run: form.Run) -> None:
    """Draw the default's shares of the tuned scores."""
    prefix = "share_of_tuned_"
    rows = [row for row in run.report.rows if row["metric"].startswith(prefix) and "seconds" not in row["metric"]]
    figure, axes = new_plot("Defaults", x="", y="share of the tuned figure")
    for metric in dict.fromkeys(row["metric"] for row in rows):
        points = [(row["data"], row["value"]) for row in rows if row["metric"] == metric]
        label = metric.removeprefix(prefix).replace("_", " ")
        axes.plot(*zip(*points, strict=True), marker="o", linestyle="none", label=label)
    axes.axhline(ENOUGH, color="#999", linewidth=0.9, linestyle="--")
    axes.tick_params(axis="x", rotation=30)
    axes.legend(frameon=False)
    run.plot("shares", figure, "Scores of the default as shares of the tuned ones; the line is one percent below.")


if __name__ == "__main__":
    main()
