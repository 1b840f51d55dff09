"""Time and memory of the method of moments against documents, on generated corpora of extreme width.

A store of labeled documents is generated once, block by block; its first eighth, fourth, half and all of it are
then learned from, each pass timed. Shapes: `amazoncat` has 1,186,239 documents, 203,882 words and 13,330 labels,
`wikilshtc` 1,778,351 documents, 1,617,899 words and 325,056 labels, `million` five million documents of a million
words and labels; `--share` makes any of them smaller in documents alone. The rank of the rest is scored on documents
drawn afterwards. `--low-rank` runs alternating least squares on the same store for as many turns, `--trees` napkinXC
on the same documents in memory. Seconds and CPU
seconds are those of learning alone, for both; `scoring_cpu_seconds` are those of scoring a thousand documents.
"""

import argparse
import time
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from dspectral import MomentMultiLabelClassifier, open_store, write_counts
from dspectral.datasets import labeled_counts
from dspectral.engine import Callback
from dspectral.methods.multilabel import MultiLabelRecipe, word_rows
from dspectral.store import CountStore

from .._form import form
from .._form.plots import new_plot
from .._parts.multilabel_baselines import LowRank, NapkinTrees
from .._parts.scores import document_auc, ndcg_at, precision_at

PASSES = ("first", "second", "third", "fourth", "fifth")
"""Names of the passes of the method of moments, with those of EM."""
OF_THE_FIGURES: dict[str, Any] = {"smoothing": 0.01, "n_em_iter": 0, "alpha": 0.1}
"""Settings that were written down with the first figures."""


class Shape(NamedTuple):
    """Of a corpus: documents, words and labels, and how many words and labels are drawn for a document."""

    documents: int
    words: int
    labels: int
    row_length: float
    labels_each: float


SHAPES = {
    "amazoncat": Shape(1_186_239, 203_882, 13_330, 86.0, 6.0),
    "wikilshtc": Shape(1_778_351, 1_617_899, 325_056, 49.0, 3.5),
    "million": Shape(5_000_000, 700_000, 300_000, 60.0, 4.0),
    "small": Shape(4_000, 3_000, 200, 30.0, 4.0),
}


class PassTimer(Callback):
    """Callback that records the seconds of each pass."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_pass_ended(self, event: Any) -> None:
        """Record a pass."""
        self.seconds.append(event.seconds)


def main(argv: list[str] | None = None) -> None:
    """Generate, then learn from larger and larger parts."""
    arguments = options().parse_args(argv)
    shape = SHAPES[arguments.shape]
    with form.run(arguments) as run, form.scratch_folder(arguments.scratch) as scratch:
        with run.measure("generate the store"):
            store = generated(arguments, shape, f"{scratch}/documents.zarr")
        labels = sum(block.label_nnz for block in store.blocks) / store.n_rows
        run.note(
            f"{store.n_rows} documents x {store.n_columns} words, {store.nnz / store.n_rows:.1f} entries and "
            f"{labels:.2f} of {store.n_labels} labels each, in {store.n_blocks} blocks: "
            f"{store.n_bytes / 1e9:.2f} GB not compressed"
        )
        words, true_labels = _documents(arguments, shape, 1000, arguments.seed + 1)
        held_out = words.compute(), true_labels.compute()
        points = [learn_part(run, store, factor, held_out) for factor in sorted(arguments.parts)]
        if len(points) > 1:
            plot(run, points)
        for turns in arguments.low_rank:
            learn_low_rank(run, store, turns, held_out)
        if arguments.trees:
            learn_trees(run, store, held_out)


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.multilabel_scale", __doc__)
    add = parser.add_argument
    add("--shape", choices=tuple(SHAPES), default="amazoncat", help="of the corpus")
    add("--share", type=float, default=1.0, metavar="S", help="of its documents")
    add("--parts", type=form.positive, nargs="+", default=[1, 2, 4, 8], metavar="P", help="in eighths")
    add("--n-states", type=form.positive, default=50, metavar="K", help="latent states")
    add("--true-states", type=form.positive, default=100, metavar="S", help="states drawn from")
    about = "smoothing .01, no EM and a ridge of .1, or what the classifier chooses by itself"
    add("--settings", choices=("figures", "default"), default="figures", help=about)
    add("--block-rows", type=form.positive, default=20_000, help="documents of a block")
    about = "turns of low-rank runs (default: none)"
    add("--low-rank", type=form.positive, nargs="*", default=[], metavar="T", help=about)
    add("--trees", action="store_true", help="of napkinXC, too")
    add("--scratch", type=form.local_path, help="folder for the store (default: the system's)")
    return parser


def generated(arguments: argparse.Namespace, shape: Shape, path: str) -> CountStore:
    """Write documents and labels."""
    n_rows = max(8, int(shape.documents * arguments.share))
    words, labels = _documents(arguments, shape, n_rows, arguments.seed)
    write_counts(words, path, labels=labels)
    return open_store(path)


def _documents(arguments: argparse.Namespace, shape: Shape, n_rows: int, seed: int) -> tuple[Any, Any]:
    return labeled_counts(
        n_rows,
        shape.words,
        shape.labels,
        arguments.true_states,
        row_length=shape.row_length,
        labels_each=shape.labels_each,
        block_rows=min(arguments.block_rows, max(1, n_rows // 8)),
        seed=seed,
    )


def learn_part(
    run: form.Run, store: CountStore, part: int, held_out: tuple[Any, Any]
) -> tuple[int, float, dict[str, float]]:
    """Learn from the first eighths of the documents; return how many, the seconds, and those of each pass."""
    arguments = run.arguments
    n_blocks = -(-store.n_blocks * part // 8)
    documents = replace(store, blocks=store.blocks[:n_blocks])
    given = dict(OF_THE_FIGURES) if arguments.settings == "figures" else {"alpha": "auto"}
    model = MomentMultiLabelClassifier(
        arguments.n_states,
        recipe=MultiLabelRecipe(alpha=given.pop("alpha")),
        random_state=arguments.seed,
        **given,
    )
    with PassTimer() as timer:
        used = run.fit(f"learn from {part}/8", model, documents)
    passes = {f"{name}_pass": seconds for name, seconds in zip(PASSES, timer.seconds, strict=False)}
    seconds = {f"{name}_seconds": value for name, value in passes.items()}
    values = seconds | _scores(model.decision_function, held_out)
    _report(run, "moments", used, values, documents=documents.n_rows, passes=model.n_passes_)
    return documents.n_rows, used.seconds, passes


def learn_low_rank(run: form.Run, store: CountStore, turns: int, held_out: tuple[Any, Any]) -> None:
    """Run alternating least squares on all of the documents."""
    arguments = run.arguments
    model = LowRank(arguments.n_states, iterations=turns, seed=arguments.seed)
    with run.measure(f"low-rank, {turns} turn(s)") as used:
        model.fit(store)
    run.passes += model.n_passes
    fields = {"documents": store.n_rows, "passes": model.n_passes}
    _report(run, f"low-rank, {turns} turn(s)", used, _scores(model.decision_function, held_out), **fields)


def learn_trees(run: form.Run, store: CountStore, held_out: tuple[Any, Any]) -> None:
    """Let napkinXC learn from rows of tf-idf in memory, of unit length."""
    X, others = (
        sparse.csr_matrix(word_rows(rows, keep_counts=False)) for rows in (store.counts.compute(), held_out[0])
    )
    weigh, trees = TfidfTransformer().fit(X), NapkinTrees(import_module("napkinxc.models"))
    X, Y = weigh.transform(X), sparse.csr_matrix(store.labels.compute())
    with run.measure("napkinXC") as used:
        trees.learn(X, Y)
    found = _scores(trees.scores, (weigh.transform(others), held_out[1]))
    _report(run, "napkinXC", used, found, documents=store.n_rows)


def _scores(score: Any, held_out: tuple[Any, Any]) -> dict[str, float]:
    """Score in small pieces: all labels of a thousand documents would be gigabytes."""
    words, labels = held_out
    parts: dict[str, list[Any]] = {"auc": [], "precision_at_1": [], "precision_at_5": [], "ndcg_at_5": []}
    seconds = 0.0
    for start in range(0, words.shape[0], 50):
        before = time.process_time()
        ranked, truth = score(words[start : start + 50]), labels[start : start + 50]
        seconds += time.process_time() - before
        parts["auc"].append(document_auc(ranked, truth))
        parts["precision_at_1"].append(precision_at(ranked, truth, 1))
        parts["precision_at_5"].append(precision_at(ranked, truth, 5))
        parts["ndcg_at_5"].append(ndcg_at(ranked, truth, 5))
    means = {name: float(np.nanmean(np.concatenate(values))) for name, values in parts.items()}
    return {**means, "scoring_cpu_seconds": seconds}


def _report(run: form.Run, method: str, used: Any, values: dict[str, float], **fields: Any) -> None:
    values = {
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        "peak_memory_bytes": max(used.peaks_of_workers, default=used.peak_memory_bytes),
        "peak_memory_bytes_here": used.peak_memory_bytes_here,
        "workers_lost": used.workers_lost,
        **values,
    }
    run.rows(values, data=run.arguments.shape, method=method, **fields)


def plot(run: form.Run, points: list[tuple[int, float, dict[str, float]]]) -> None:
    """Draw seconds against documents, and give the slope on logarithmic scales."""
    documents, seconds = [point[0] for point in points], [point[1] for point in points]
    slope = float(np.polyfit(np.log(documents), np.log(seconds), 1)[0])
    run.row(data=run.arguments.shape, method="moments", metric="slope_in_documents", value=slope)
    figure, axes = new_plot("Time against documents", x="documents", y="seconds", log="xy")
    axes.plot(documents, seconds, marker="o", label=f"all, slope {slope:.2f}")
    for name in (name for name in PASSES if all(f"{name}_pass" in point[2] for point in points)):
        axes.plot(documents, [point[2][f"{name}_pass"] for point in points], marker=".", label=f"{name} pass")
    axes.legend(frameon=False)
    run.plot("seconds", figure, "Seconds of a fit and of its passes; 1 is linear.")


if __name__ == "__main__":
    main()
