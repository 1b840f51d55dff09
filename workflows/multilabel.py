"""Learn many labels by the method of moments, beside low-rank regression and one-vs-rest.

Training and test documents are read from extreme-classification or svmlight text into stores; every method learns
from the same one. Methods: `moments` is the algorithm as printed, `moments-unbiased` pairs distinct words only
and smooths, `moments+em` smooths and adds passes of EM, `moments+linear` and `moments+em+linear` add the linear
correction from the same passes, `low-rank` is alternating least squares, `one-vs-rest` logistic regressions.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dspectral
from dspectral import MomentMultiLabelClassifier
from dspectral.metrics.ranking import (
    document_auc,
    label_propensities,
    ndcg_at,
    precision_at,
    propensity_precision_at,
)
from dspectral.store.counts import CountStore
from dspectral.store.labelled_text import build_labelled_store
from workflows import form
from workflows.multilabel_baselines import LowRank, OneVsRest
from workflows.plots import new_plot

METHODS = (
    "moments",
    "moments-unbiased",
    "moments+em",
    "moments+linear",
    "moments+em+linear",
    "low-rank",
    "one-vs-rest",
)


class Scored(NamedTuple):
    """A method that has learned, and what it took."""

    method: str
    n_states: int
    metrics: dict[str, float]


def main(argv: list[str] | None = None) -> None:
    """Learn, score, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, TemporaryDirectory(prefix="dspectral-") as scratch:
        with run.measure("read the documents"):
            train, test = stores(arguments, scratch)
        run.note(
            f"{train.n_rows} training and {test.n_rows} test documents, {train.n_columns} words, "
            f"{train.n_labels} labels"
        )
        scored = []
        for method in arguments.methods:
            for n_states in arguments.n_states if method != "one-vs-rest" else arguments.n_states[:1]:
                scored += learn(run, method, n_states, train, test)
        plot(run, scored)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("multilabel", __doc__)
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help="labelled documents; also .gz, URLs")
    add("--test", required=True, metavar="FILE", help="the same, to be labelled")
    add("--format", choices=("extreme", "svmlight"), default="extreme", help="of the files (extreme)")
    add("--one-based", action="store_true", help="the first column is 1 in the files, not 0")
    add("--n-states", type=form.positive, nargs="+", default=[100], metavar="K", help="latent states (100)")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="(all)")
    add("--smoothing", type=float, default=0.01, help="share of the corpus in the states' words (0.01)")
    add("--polish", type=form.positive, default=1, metavar="P", help="passes of EM of the em methods (1)")
    add("--tensor", choices=("power", "diagonalise"), default="power", help="decomposition (power)")
    add("--alpha", type=float, default=0.1, help="ridge of the linear correction (0.1)")
    add("--penalty", type=float, default=10.0, help="ridge of low-rank (10)")
    add("--iterations", type=form.positive, default=10, help="turns of low-rank (10)")
    add("--inverse-penalty", type=float, default=10.0, metavar="C", help="of one-vs-rest (10)")
    return parser


def stores(arguments: argparse.Namespace, scratch: str) -> tuple[CountStore, CountStore]:
    """Read both files; the training file says how many words and labels there are."""
    settings: Any = {"format": arguments.format, "zero_based": not arguments.one_based}
    train = build_labelled_store(arguments.train, f"{scratch}/train.zarr", **settings)
    width = {"n_columns": train.n_columns, "n_labels": train.n_labels}
    return train, build_labelled_store(arguments.test, f"{scratch}/test.zarr", **settings, **width)


def made(arguments: argparse.Namespace, method: str, n_states: int) -> Any:
    """Return a method, not fitted."""
    if method == "low-rank":
        settings: Any = {"penalty": arguments.penalty, "seed": arguments.seed}
        return LowRank(n_states, iterations=arguments.iterations, **settings)
    if method == "one-vs-rest":
        return OneVsRest(arguments.inverse_penalty)
    return MomentMultiLabelClassifier(
        n_states,
        moments="unbiased" if method == "moments-unbiased" else "paper",
        tensor=arguments.tensor,
        smoothing=0.0 if method == "moments" else arguments.smoothing,
        polish=arguments.polish if "+em" in method else 0,
        correction_rank=None if method.endswith("+linear") else 0,
        alpha=arguments.alpha,
        random_state=arguments.seed,
    )


def learn(run: form.Run, method: str, n_states: int, train: CountStore, test: CountStore) -> list[Scored]:
    """Fit and score one method; nothing if the words have too few directions for it."""
    arguments, name = run.arguments, name_of(run.arguments.train)
    try:
        with run.measure(f"{method}, K={n_states}") as used:
            model = made(arguments, method, n_states).fit(train)
    except ValueError as error:
        if "independent direction" not in str(error):
            raise
        run.note(f"{method}, K={n_states}: {error}")
        return []
    n_passes = getattr(model, "n_passes_", None) or model.n_passes
    run.passes += n_passes
    metrics = {
        **scores(model, train, test),
        "cpu_seconds": used.cpu_seconds,
        "peak_memory_bytes": used.peak_memory_bytes,
    }
    for metric, value in metrics.items():
        run.row(data=name, method=method, metric=metric, value=value, n_states=n_states, passes=n_passes)
    if isinstance(model, MomentMultiLabelClassifier):
        run.save(lambda path: dspectral.save(model, path))
    return [Scored(method, n_states, metrics)]


def name_of(path: str) -> str:
    """Name the data by its file, or its folder where the file is called train or all."""
    file = Path(path)
    stem = file.name.split(".")[0]
    return file.parent.name if stem in ("train", "all") and file.parent.name else stem


def scores(model: Any, train: CountStore, test: CountStore) -> dict[str, float]:
    """Score the ranking of all labels of every test document, block by block."""
    propensities = label_propensities(label_totals(train), train.n_rows)
    parts: dict[str, list[NDArray[np.float64]]] = {}
    for i in range(test.n_blocks):
        ranked = model.decision_function(test.counts.blocks[i].compute())
        for metric, values in of_block(ranked, test.labels.blocks[i].compute(), propensities).items():
            parts.setdefault(metric, []).append(values)
    every = {metric: np.concatenate(values) for metric, values in parts.items()}
    possible = float(np.nansum(every.pop("possible")))
    gained = float(np.nansum(every.pop("gained")))
    means = {metric: float(np.nanmean(values)) for metric, values in every.items()}
    return {**means, "propensity_precision_at_5": gained / possible if possible else float("nan")}


def of_block(ranked: Any, truth: Any, propensities: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the metrics of each document of a block."""
    five = min(5, ranked.shape[1])
    found = {"auc": document_auc(ranked, truth)}
    for k in (1, 3, 5):
        found[f"precision_at_{k}"] = precision_at(ranked, truth, min(k, five))
    found["ndcg_at_5"] = ndcg_at(ranked, truth, five)
    found["gained"], found["possible"] = propensity_precision_at(ranked, truth, five, propensities)
    return found


def label_totals(store: CountStore) -> NDArray[np.int64]:
    """Count the documents that have each label, block by block."""
    total = np.zeros(store.n_labels or 0, dtype=np.int64)
    for i in range(store.n_blocks):
        total += np.bincount(store.labels.blocks[i].compute().indices, minlength=len(total))
    return total


def plot(run: form.Run, scored: list[Scored]) -> None:
    """Draw the area against the number of states."""
    figure, axes = new_plot("Ranking of labels", x="latent states", y="AUC, mean over documents")
    for method in dict.fromkeys(one.method for one in scored):
        points = [(one.n_states, one.metrics["auc"]) for one in scored if one.method == method]
        if method == "one-vs-rest":
            axes.axhline(points[0][1], color="#999", linewidth=0.9, linestyle="--", label=method)
        else:
            axes.plot(*zip(*points, strict=True), marker="o", label=method)
    axes.legend(frameon=False)
    run.plot("auc", figure, "Area under the ROC curve of each test document's ranking, macro-averaged.")


if __name__ == "__main__":
    main()
