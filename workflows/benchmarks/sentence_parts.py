"""What the parts of a sentence representation add: the rarity of words, the directions of the sketch, or both.

Some sentences of each intent keep their labels; a share of the others is unlabelled text of the same kind, as in the
paper, and public queries of other subjects can be added to all of them. Beside the counts of n-grams (`none`) stands
the rarity of words alone (`idf`), their directions alone (`sketch`), or both (`sent`); `auto` is what cross-validation
on the labelled sentences chooses of the four. `--data` is a folder of data sets: `intent/NAME/{train,test}.tsv`,
`sentences/trec`, `multilabel/goemotions`, `newsgroups20` (subjects), `reuters21578` (titles), `sms_spam`,
`sentiment/sst5` and `queries/*.txt.gz`; `standard_library` is made of Python's own.
"""

import argparse
from pathlib import Path

from .._form import form
from .._form.plots import new_plot
from ._defaults.halves import RULE, designed_on
from ._sentences.cells import PARTS, Cells
from ._sentences.intent_sets import SETS, held_out, read_intents, read_queries


def main(argv: list[str] | None = None) -> None:
    """Learn with each part from each amount of text, and report what each adds."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        run.note(f"Split: {RULE}.")
        designed = designed_on(SETS)
        queries = read_queries(arguments.data, max(arguments.queries, default=0), arguments.seed)
        for name in arguments.sets:
            sides = read_intents(arguments.data, name)
            if arguments.design:
                sides = held_out(sides[0], arguments.seed)
            cells = Cells(run, name, *sides, queries)
            for labelled in arguments.labelled:
                for draw in range(arguments.draws if labelled else 1):
                    cells.draw(labelled, arguments.shares, arguments.queries, arguments.seed + draw)
            cells.report("designed on" if name in designed else "reported")
        answer(run)
        plot(run)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.sentence_parts", __doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the data sets")
    add("--sets", nargs="+", choices=list(SETS), default=list(SETS), metavar="NAME", help="data sets")
    add(
        "--labelled",
        nargs="+",
        type=labels,
        default=[5, 10, 50],
        metavar="N",
        help="labelled sentences an intent, or all",
    )
    add(
        "--shares",
        nargs="+",
        type=form.share,
        default=[0.0, 0.01, 0.1, 1.0],
        metavar="S",
        help="of the other training sentences that are unlabelled text",
    )
    add(
        "--queries",
        nargs="*",
        type=form.positive,
        default=[],
        metavar="N",
        help="public queries beside all of the training sentences (default: none)",
    )
    add(
        "--parts",
        nargs="+",
        choices=PARTS[:-1],
        default=PARTS[:-1],
        metavar="PART",
        help=f"beside the counts: {', '.join(PARTS[:-1])} (default: all, and what cross-validation chooses of them)",
    )
    add(
        "--design",
        action="store_true",
        help="score on a quarter of the training sentences, which nothing is learned from, and leave test sides alone",
    )
    add("--draws", type=form.positive, default=3, metavar="R", help="random draws of the labelled sentences")
    add("--n-components", type=form.positive, default=200, metavar="K", help="length of a word's vector")
    return parser


def labels(text: str) -> int | None:
    """Read a number of labelled sentences, None for all, as a ``type`` of argparse.

    >>> labels("10"), labels("all")
    (10, None)
    """
    return None if text == "all" else form.positive(text)


def answer(run: form.Run) -> None:
    """Say what the sketch adds to the rarity of words, over all cells with all of the text."""
    gains = {
        of: [
            row["value"]
            for row in run.report.rows
            if row["method"] == of and row["unlabeled"] == 1.0 and not row["queries"]
        ]
        for of in ("idf over none", "sent over idf", "auto over sent")
    }
    means = {of: 100 * sum(values) / len(values) for of, values in gains.items() if values}
    if len(means) == len(gains):
        run.answer(
            f"With all of the unlabelled text the rarity of words brings {means['idf over none']:+.1f} points over the "
            f"counts, the sketch {means['sent over idf']:+.1f} points more; cross-validation among them brings "
            f"{means['auto over sent']:+.1f} points over always taking both (means over {len(gains['idf over none'])} "
            "pairs of data set and number of labels)."
        )


def plot(run: form.Run) -> None:
    """Draw each part's accuracy against the share of the text, averaged over data sets and numbers of labels."""
    rows = [
        row
        for row in run.report.rows
        if row["metric"] == "accuracy" and not row["queries"] and row["labelled"] != "all"
    ]
    if not rows:
        return
    figure, axes = new_plot("Parts", x="share of the unlabelled text", y="accuracy")
    for method in (*PARTS, "auto"):
        shares = sorted({row["unlabeled"] for row in rows})
        points = [
            [row["value"] for row in rows if row["method"] == method and row["unlabeled"] == share]
            for share in shares
        ]
        if all(points):
            axes.plot(shares, [sum(of) / len(of) for of in points], marker="o", label=method)
    axes.set_xscale("symlog", linthresh=0.01)
    axes.legend(frameon=False)
    run.plot("parts", figure, "Accuracy on the test side, averaged over data sets and numbers of labels.")


if __name__ == "__main__":
    main()
