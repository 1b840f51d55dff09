"""What each part of the anchor HMM is worth: many-to-one with one thing changed at a time, beside the fixed setting.

Each `--corpus` is one data set, named by its first file's folder; give as many as there are. Values are means over
the seeds; data "mean" is that over the data sets. Tags are looked at to score alone.
"""

import argparse
from itertools import chain
from typing import Any

import numpy as np

from dspectral import AnchorHMM, AnchorRecipe
from dspectral.io import TaggedSentences
from dspectral.metrics import many_to_one

from .._form import form
from .._form.plots import new_plot
from ..pos_induction import SPELLING, folder_of, read

CHANGES: dict[str, dict[str, Any]] = {
    "fixed setting": {},
    "no spelling": {"spelling": 0.0},
    "nothing merged": {"min_count": 1},
    "nothing merged, no spelling": {"min_count": 1, "spelling": 0.0},
    "no sweeps": {"n_sweeps": 0},
    "no sweeps, no spelling": {"n_sweeps": 0, "spelling": 0.0},
    "anchors not re-selected": {"recipe": AnchorRecipe(reselect=0)},
    "reduction by CCA": {"recipe": AnchorRecipe(reduction="cca")},
    "reduction by SVD": {"recipe": AnchorRecipe(reduction="svd")},
    "random reduction": {"recipe": AnchorRecipe(reduction="random")},
    "CCA, no sweeps": {"recipe": AnchorRecipe(reduction="cca"), "n_sweeps": 0},
    "SVD, no sweeps": {"recipe": AnchorRecipe(reduction="svd"), "n_sweeps": 0},
    "random, no sweeps": {"recipe": AnchorRecipe(reduction="random"), "n_sweeps": 0},
    "both neighbours as one bag": {"recipe": AnchorRecipe(context="bag")},
    "plain counts": {"recipe": AnchorRecipe(count_transform="none")},
    "smoothing by 10": {"recipe": AnchorRecipe(smoothing=10.0)},
    "10 passes of EM for transitions": {"recipe": AnchorRecipe(n_transition_em_iter=10)},
    "1 pass of EM": {"n_em_iter": 1},
    "5 passes of EM": {"n_em_iter": 5},
    "20 passes of EM": {"n_em_iter": 20},
    "most probable paths": {"recipe": AnchorRecipe(decoding="viterbi")},
}


def main(argv: list[str] | None = None) -> None:
    """Read each data set, and fit every change to it."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        found: dict[str, list[float]] = {}
        for paths in arguments.corpus:
            data = read(paths, arguments.word_column, arguments.tag_column)
            for change in arguments.changes:
                found.setdefault(change, []).append(score(run, folder_of(paths[0]), data, change))
        for change, values in found.items():
            run.row(data="mean", method=change, metric="many_to_one", value=float(np.mean(values)))
        plot(run, found)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.anchor_ablation", __doc__)
    add = parser.add_argument
    files = "of one data set, a token a line; also .gz, URLs"
    add("--corpus", nargs="+", action="append", required=True, metavar="CONLL", help=files)
    add("--word-column", type=form.positive, default=1, metavar="N", help="of the words, from 1 on")
    add("--tag-column", type=form.positive, default=2, metavar="N", help="of the tags, from 1 on")
    add("--n-states", type=form.positive, default=12, metavar="M", help="hidden states")
    add("--seeds", type=form.positive, default=1, metavar="N", help="fits of each change")
    add("--changes", nargs="+", choices=CHANGES, default=list(CHANGES), metavar="CHANGE", help="to compare")
    return parser


def score(run: form.Run, name: str, data: TaggedSentences, change: str) -> float:
    """Fit one change with each seed; report and return the mean many-to-one."""
    arguments, tags = run.arguments, list(chain(*data.tags))
    values = []
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        model = AnchorHMM(
            arguments.n_states, random_state=seed, **{"spelling": SPELLING, "min_count": 4, **CHANGES[change]}
        )
        with run.measure(f"{name}: {change}, seed {seed}"):
            states = model.fit(data.words).predict(data.words)
        run.passes += model.n_passes_
        values.append(many_to_one(tags, np.concatenate(states)))
    value = float(np.mean(values))
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    run.row(data=name, method=change, metric="many_to_one", value=value, spread=spread, seeds=len(values))
    return value


def plot(run: form.Run, found: dict[str, list[float]]) -> None:
    """Draw the mean of each change."""
    figure, axes = new_plot("One thing changed at a time", x="many-to-one, mean over the data", y="")
    changes = list(found)[::-1]
    axes.barh(changes, [float(np.mean(found[change])) for change in changes], color="#4878a8")
    run.plot("many_to_one", figure, "Share of tokens whose state's most frequent tag is theirs.")


if __name__ == "__main__":
    main()
