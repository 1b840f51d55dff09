"""What a person gets without tuning: defaults beside tuned settings, those of the paper, and peers.

For each family of methods and each data set the constructor's defaults, the best of a grid by documents held out of
the training side, the settings of the paper, and peers learn from the training side and are scored on the test side.
Defaults were designed on every other data set by name; what counts is the other half. `--data` is a folder of data
sets: for many labels `multilabel/NAME/{train,test,all}.txt.gz`, `multilabel/goemotions/{train,test}.tsv.gz` and
`reuters21578/modapte_{train,test}.jsonl.gz`; for intents `intent`, `sentiment`, `sentences`,
`sms_spam`, `newsgroups20` and `reuters21578`; for word vectors
`corpus/mix6m.txt.gz`, `wordsim/*.tsv` and `analogy/*.tsv.gz`; for word classes `pos/NAME/*.conll.gz`; for sequences
these, `ner/NAME/{train,test}.conll.gz`, slots in `intent/atis` and recordings in `fsdd`; for trees those of
`benchmarks.tree_features`; for spaces of documents these, `newsgroups20`, `reuters21578` and reviews in `sentiment`.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from .._form import form
from .._form.plots import new_plot
from ._defaults import anchors, brown, embeddings, lsi, multilabel, refinements, sentences, tree
from ._defaults.family import Family, Found
from ._defaults.halves import RULE, designed_on

METHODS: dict[str, Family] = {
    "anchor_hmm": anchors.FAMILY,
    "brown": brown.FAMILY,
    "embeddings": embeddings.FAMILY,
    "local_lsi": lsi.LOCAL_FAMILY,
    "lsi": lsi.FAMILY,
    "multilabel": multilabel.FAMILY,
    "refinement_hmm": refinements.FAMILY,
    "sentences": sentences.FAMILY,
    "tree": tree.FAMILY,
}
"""Families by their names."""
ENOUGH = 0.99
"""Share of the tuned figure that a default is to reach."""


def main(argv: list[str] | None = None) -> None:
    """Learn in each way from each data set, and hold the default against the tuned one."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        run.note(f"Split: {RULE}.")
        for family in arguments.methods:
            compare(run, family, METHODS[family])
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.defaults", __doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the data sets")
    add(
        "--methods",
        nargs="+",
        choices=list(METHODS),
        default=list(METHODS),
        metavar="FAMILY",
        help="to compare",
    )
    sets = sorted({name for family in METHODS.values() for name in family.sets})
    add("--sets", nargs="+", choices=sets, default=sets, metavar="NAME", help="data sets (default: all)")
    return parser


def compare(run: form.Run, name: str, family: Family) -> None:
    """Report one family: each way on each data set, and how much of the tuned figures the defaults reach."""
    designed = designed_on(family.sets)
    shares: dict[str, float] = {}
    for data in [one for one in family.sets if one in run.arguments.sets]:
        half = "designed on" if data in designed else "reported"
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            ways = {}
            for found in family.found(run, run.arguments.data, data, scratch):
                ways[found.method] = found
                report(run, name, data, half, found)
        lost = against(run, name, data, half, ways)
        if half == "reported":
            shares[data] = lost
    if shares:
        reached = sum(share >= ENOUGH for share in shares.values())
        worst = min(shares, key=lambda data: shares[data])
        run.answer(
            f"On {reached} of {len(shares)} data sets that it was not designed on, the default of `{name}` reaches "
            f"{ENOUGH:.0%} of the tuned figures or more; the least is {shares[worst]:.1%}, on {worst}."
        )


def report(run: form.Run, family: str, data: str, half: str, found: Found) -> None:
    """Add the rows of one way."""
    values = {**found.scores, "cpu_seconds": found.cpu_seconds}
    for metric, value in values.items():
        run.row(
            data=data, method=found.method, metric=metric, value=value, family=family, half=half,
            settings=found.settings,
        )  # fmt: skip


def against(run: form.Run, family: str, data: str, half: str, ways: dict[str, Found]) -> float:
    """Report the default's figures as shares of the tuned ones; return the least share of a score."""
    default, tuned = ways["default"], ways["tuned"]
    shares = {
        f"share_of_tuned_{metric}": default.scores[metric] / best for metric, best in tuned.scores.items()
    }
    times = {"share_of_tuned_cpu_seconds": default.cpu_seconds / max(tuned.cpu_seconds, 1e-9)}
    for metric, value in {**shares, **times}.items():
        run.row(
            data=data, method="default", metric=metric, value=value, family=family, half=half, settings=""
        )
    return min(shares.values())


def plot(run: form.Run) -> None:
    """Draw the default's shares of the tuned scores."""
    rows = [
        row
        for row in run.report.rows
        if row["metric"].startswith("share_of_tuned_") and "seconds" not in row["metric"]
    ]
    figure, axes = new_plot("Defaults", x="", y="share of the tuned figure")
    for metric in dict.fromkeys(row["metric"] for row in rows):
        points = [(row["data"], row["value"]) for row in rows if row["metric"] == metric]
        label = metric.removeprefix("share_of_tuned_").replace("_", " ")
        axes.plot(*zip(*points, strict=True), marker="o", linestyle="none", label=label)
    axes.axhline(ENOUGH, color="#999", linewidth=0.9, linestyle="--")
    axes.tick_params(axis="x", rotation=30)
    axes.legend(frameon=False)
    run.plot(
        "shares", figure, "Scores of the default as shares of the tuned ones; the line is one percent below."
    )


if __name__ == "__main__":
    main()
