"""Learn many labels by the method of moments, beside low-rank regression and one-vs-rest.

Training and test documents are read from extreme-classification or svmlight text, or from records of text, into
stores; every method learns from the same one. Methods: `default` is the classifier as its name alone makes it, which
chooses its penalties itself, `moments` is the algorithm as printed, `moments-unbiased`
pairs distinct words only and smooths, `moments+em` smooths and adds passes of EM, `moments+linear` has the linear part
from the same passes, as `default`, with penalties that are given, `low-rank` is alternating least squares,
`one-vs-rest` logistic regressions.
"""

import argparse
from typing import Any, NamedTuple

from ._form import form
from ._parts.text_options import LABELED_FILES, add_label_options

CHOICES = {
    "default": (),
    "moments": (),
    "moments-unbiased": ("smoothing",),
    "moments+em": ("smoothing", "polish", "label_weight"),
    "moments+linear": ("alpha",),
    "low-rank": ("penalty",),
    "one-vs-rest": ("inverse_penalty",),
}
"""Settings of each method, by the names of the options."""
METHODS = tuple(CHOICES)


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("multilabel", __doc__)
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help="labeled documents; also .gz, URLs")
    add("--test", metavar="FILE", help="the same, to be labeled (default: a share of the training file)")
    add("--test-share", type=float, default=0.5, metavar="S", help="where there is no test file")
    formats = f"of the files (extreme); records are {LABELED_FILES}"
    add("--format", choices=("extreme", "svmlight", "records"), default="extreme", help=formats)
    add_label_options(parser)
    add("--one-based", action="store_true", help="the first column is 1 in the files, not 0")
    add("--n-states", type=form.positive, nargs="+", default=[100], metavar="K", help="latent states")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="to compare")
    add("--tensor", choices=("auto", "power", "batches", "diagonalise"), default="auto", help="decomposition")
    add("--iterations", type=form.positive, default=10, help="turns of low-rank")
    chosen = parser.add_argument_group(
        "settings",
        "of several values the best is chosen for each method, at the middle K, by AUC on documents held out; "
        "with auto the classifier itself chooses, and the report says what it chose",
    )
    add = chosen.add_argument
    values: Any = {"nargs": "+", "metavar": "X"}
    words = "share of the corpus in the states' words"
    add("--smoothing", type=float, default=[0.9], help=words, **values)
    add("--polish", type=form.positive, default=[2], help="passes of EM of the em methods", **values)
    weight = "what a document's labels count for in EM, a word 1"
    add("--label-weight", type=float, default=[16.0], help=weight, **values)
    add("--alpha", type=number_or_auto, default=["auto"], help="penalty of the linear part", **values)
    add("--penalty", type=float, default=[10.0], help="ridge of low-rank", **values)
    add("--inverse-penalty", type=float, default=[10.0], help="of one-vs-rest", **values)
    held = "of the training documents, to choose by; what is chosen learns from all"
    add("--held-out", type=float, default=0.25, metavar="S", help=held)
    return parser


def number_or_auto(text: str) -> float | str:
    """Read a number, or ``auto``, as a ``type`` of argparse."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, nor auto") from None


form.check_options(__name__, options)

import json
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import dspectral
from dspectral import MomentMultiLabelClassifier
from dspectral.methods.multilabel import MultiLabelRecipe
from dspectral.store import CountStore

from ._form.plots import at_integers, from_zero, new_lines
from ._parts.labeled_documents import name_of, note_not_learned
from ._parts.multilabel_baselines import LowRank, OneVsRest
from ._parts.multilabel_stores import parted, stores
from ._parts.scores import document_auc, label_propensities, ndcg_at, precision_at, propensity_precision_at


class Scored(NamedTuple):
    """A method that has learned, and what it took."""

    method: str
    n_states: int
    metrics: dict[str, float]


def main(argv: list[str] | None = None) -> None:
    """Choose, learn, score, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, TemporaryDirectory(prefix="dspectral-") as scratch:
        with run.measure("read the documents"):
            train, test = stores(arguments, scratch)
        run.note(
            f"{train.n_rows} training and {test.n_rows} test documents, {train.n_columns} words, "
            f"{train.n_labels} labels"
        )
        note_missed(run, train, test, scratch)
        choose = Chooser(run, train, scratch)
        scored = []
        for method in arguments.methods:
            for n_states in arguments.n_states if method != "one-vs-rest" else arguments.n_states[:1]:
                scored += learn(run, method, n_states, choose, train, test)
        plot(run, scored)


def made(arguments: argparse.Namespace, method: str, n_states: int, settings: dict[str, Any]) -> Any:
    """Return a method, not fitted."""
    if method == "low-rank":
        return LowRank(n_states, iterations=arguments.iterations, seed=arguments.seed, **settings)
    if method == "one-vs-rest":
        return OneVsRest(settings["inverse_penalty"])
    if method == "default":
        recipe = MultiLabelRecipe(tensor=arguments.tensor)
        return MomentMultiLabelClassifier(n_states, recipe=recipe, random_state=arguments.seed)
    settings = {"n_em_iter" if name == "polish" else name: value for name, value in settings.items()}
    own = {"alpha": settings.pop("alpha")} if "alpha" in settings else {}
    moments = "unbiased" if method == "moments-unbiased" else "paper"
    return MomentMultiLabelClassifier.as_published(
        n_states,
        correction_rank=None if method == "moments+linear" else 0,
        recipe=MultiLabelRecipe(moments=moments, tensor=arguments.tensor, **own),
        random_state=arguments.seed,
        **settings,
    )


def note_missed(run: form.Run, train: CountStore, test: CountStore, scratch: str) -> None:
    """Note the labels that test documents have and no training document."""
    width = width_of(train, test)
    known, own = (np.pad(found, (0, width - len(found))) for found in map(label_totals, (train, test)))
    path = Path(scratch, "labels.json")
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    names = kept.get("names", list(map(str, range(width))))
    missed = {names[i]: int(own[i]) for i in np.flatnonzero((own > 0) & (known == 0)).tolist()}
    note_not_learned(run, missed, kept.get("n_unlabeled", 0))


def width_of(train: CountStore, test: CountStore) -> int:
    """Return the number of labels of both sides."""
    return max(train.n_labels or 0, test.n_labels or 0)


class Chooser:
    """Chooses a method's settings on documents held out of the training side, once for all K, at the middle one."""

    def __init__(self, run: form.Run, train: CountStore, scratch: str) -> None:
        self.run, self.train, self.scratch = run, train, scratch
        self.parts: tuple[CountStore, CountStore] | None = None
        self.chosen: dict[str, dict[str, Any]] = {}

    def __call__(self, method: str) -> dict[str, Any]:
        """Return the settings with the largest AUC, the first of them where several have it."""
        if method not in self.chosen:
            arguments, names = self.run.arguments, CHOICES[method]
            given = product(*(getattr(arguments, name) for name in names))
            asked = [dict(zip(names, values, strict=True)) for values in given]
            self.chosen[method] = asked[0] if len(asked) == 1 else self._best(method, asked)
        return self.chosen[method]

    def _best(self, method: str, asked: list[dict[str, Any]]) -> dict[str, Any]:
        arguments = self.run.arguments
        if self.parts is None:
            self.parts = parted(self.train, arguments.held_out, arguments.seed, f"{self.scratch}/held-out")
        train, held_out = self.parts
        n_states = sorted(arguments.n_states)[len(arguments.n_states) // 2]
        with self.run.measure(f"{method}, K={n_states}: choose among {len(asked)}"):
            found = []
            for settings in asked:
                model = made(arguments, method, n_states, settings).fit(train)
                self.run.passes += passes_of(model)
                found.append(scores(model, train, held_out)["auc"])
        return asked[int(np.argmax(found))]


def passes_of(model: Any) -> int:
    """Return how often a method has read the documents."""
    return int(getattr(model, "n_passes_", None) or model.n_passes)


def decided(model: Any, method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the classifier chose itself of the settings that were left to it."""
    if method == "default":
        return {"alpha": model.alpha_}
    return {name: getattr(model, f"{name}_") for name, value in settings.items() if value == "auto"}


def learn(
    run: form.Run, method: str, n_states: int, choose: Chooser, train: CountStore, test: CountStore
) -> list[Scored]:
    """Choose, fit and score one method; nothing if the words have too few directions for it."""
    arguments = run.arguments
    try:
        settings = choose(method)
        with run.measure(f"{method}, K={n_states}") as used:
            model = made(arguments, method, n_states, settings).fit(train)
    except ValueError as error:
        if "independent direction" not in str(error) and "n_states is" not in str(error):
            raise
        run.note(f"{method}, K={n_states}: {error}")
        return []
    n_passes = passes_of(model)
    run.passes += n_passes
    metrics = {
        **scores(model, train, test),
        "cpu_seconds": used.cpu_seconds,
        "peak_memory_bytes": used.peak_memory_bytes,
    }
    shown: Any = {"n_states": n_states, "passes": n_passes, **settings, **decided(model, method, settings)}
    run.rows(metrics, data=name_of(arguments.train), method=method, **shown)
    if isinstance(model, MomentMultiLabelClassifier):
        run.save(lambda path: dspectral.save(model, path))
    return [Scored(method, n_states, metrics)]


def scores(model: Any, train: CountStore, test: CountStore) -> dict[str, float]:
    """Score the ranking of all labels of every test document, block by block."""
    n_labels = width_of(train, test)
    totals = label_totals(train)
    propensities = label_propensities(np.pad(totals, (0, n_labels - len(totals))), train.n_rows)
    parts: dict[str, list[NDArray[np.float64]]] = {}
    # Rows in memory have no record of their weighting, which models of dspectral compare.
    ranking = model.decision_function(test.counts) if isinstance(model, MomentMultiLabelClassifier) else None
    for i in range(test.n_blocks):
        rows = (test.counts if ranking is None else ranking).blocks[i].compute()
        ranked = np.asarray(model.decision_function(rows) if ranking is None else rows)
        # Labels that training lacks are ranked behind all others.
        least = ranked.min(axis=1, keepdims=True, initial=0.0) - 1.0
        ranked = np.hstack([ranked, np.repeat(least, n_labels - ranked.shape[1], axis=1)])
        truth = test.labels.blocks[i].compute()
        truth = sparse.csr_array((truth.data, truth.indices, truth.indptr), shape=(truth.shape[0], n_labels))
        for metric, values in of_block(ranked, truth, propensities).items():
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
    areas = {
        method: [(one.n_states, one.metrics["auc"]) for one in scored if one.method == method]
        for method in dict.fromkeys(one.method for one in scored)
    }
    best = {method: max(area for _, area in points) for method, points in areas.items()}
    levels = {"one-vs-rest": areas.pop("one-vs-rest")[0][1]} if "one-vs-rest" in areas else {}
    title = "Ranking of labels"
    figure, axes = new_lines(title, areas, levels, x="latent states", y="AUC, mean over documents")
    at_integers(axes)
    from_zero(axes, zoom=True)
    run.plot("auc", figure, "Area under the ROC curve of each test document's ranking of labels, averaged.")
    first = max(best, key=lambda method: best[method])
    others = "".join(f", `{method}` {area:.3f}" for method, area in best.items() if method != first)
    run.answer(f"`{first}` ranks the labels of the test documents best: an AUC of {best[first]:.3f}{others}.")


if __name__ == "__main__":
    main()
