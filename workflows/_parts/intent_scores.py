"""Accuracy of intent classifiers over draws of labels and shares of unlabeled text."""

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, NamedTuple

import joblib
import numpy as np
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from dspectral import IntentClassifier
from dspectral.store import CountStore

from .._form import form
from .._form.plots import from_zero, new_plot

MIN_CLUSTER_WORK = 50_000
"""Minimum of sentences times intents for fits on the cluster; smaller fits are faster locally."""

DESCRIPTIONS = {
    "none": "none: n-grams alone",
    "vectors": "vectors: n-grams and mean word vectors",
    "sent": "sent: n-grams and learned sentence vectors",
    "sent+": "sent+: sent, first words and scores",
    "characters": "characters: sent and n-grams of characters",
    "auto": "auto: the best in cross-validation",
}
"""Descriptions of the methods in tables."""


class LabeledTexts(NamedTuple):
    """Sentences with their intents."""

    texts: list[str]
    intents: NDArray[Any]

    def at(self, rows: NDArray[np.int64]) -> "LabeledTexts":
        """Return the sentences of some rows."""
        return LabeledTexts([self.texts[row] for row in rows], self.intents[rows])


class Task(NamedTuple):
    """Training and test sentences, and a store of the training sentences and other text."""

    name: str
    train: LabeledTexts
    test: LabeledTexts
    store: CountStore


class Scores:
    """Correct test sentences of each method, over draws and shares."""

    def __init__(self, run: form.Run, task: Task) -> None:
        self.run, self.task = run, task
        self.right: dict[tuple[str, float], list[NDArray[np.bool_]]] = {}
        self.chosen: dict[float, list[str]] = {}

    def fit(
        self, method: str, train: LabeledTexts, classifier: IntentClassifier, shares: list[float]
    ) -> IntentClassifier:
        """Fit one classifier, and record its correct test sentences for each of the shares."""
        with (
            self.run.measure(f"{method} at {', '.join(f'{part:.0%}' for part in shares)}"),
            on_cluster(self.run, train),
        ):
            classifier.set_params(random_state=self.run.arguments.seed).fit(*train)
            right = classifier.predict(self.task.test.texts) == self.task.test.intents
        for part in shares:
            self.right.setdefault((method, part), []).append(right)
        return classifier

    def choose(self, models: dict[str, IntentClassifier], part: float) -> IntentClassifier:
        """Record as `auto` the model of highest cross-validated accuracy; the first of equals wins."""
        # score_ is NaN if nothing could be held out.
        best = max(models, key=lambda method: np.nan_to_num(models[method].score_, nan=-1.0))
        self.chosen.setdefault(part, []).append(best)
        self.right.setdefault(("auto", part), []).append(self.right[best, part][-1])
        return models[best]

    def report(self) -> None:
        """Add the accuracy, its margins over `none` and over share 0, and the recall of each intent with all text."""
        labeled = self.run.arguments.labelled or "all"
        for (method, part), draws in sorted(self.right.items(), key=lambda entry: entry[0][1]):
            over_none, none_error = margin(draws, self.right["none", part])
            fields: dict[str, Any] = {"over_none": over_none, "standard_error": none_error}
            if (method, 0.0) in self.right:
                gain, gain_error = margin(draws, self.right[method, 0.0])
                fields |= {"over_share_0": gain, "over_share_0_error": gain_error}
            if method == "auto":
                fields |= {"settings": format_choices(self.chosen[part])}
            accuracy, accuracy_error = mean_and_error(draws)
            fields = {
                "value_error": accuracy_error,
                "unlabeled": part,
                "labelled": labeled,
                "draws": len(draws),
            } | fields
            self.run.rows({"accuracy": accuracy}, data=self.task.name, method=method, **fields)
        for (method, part), draws in self.right.items():
            if part == 1.0:
                self._report_intents(method, np.mean(draws, axis=0))
        self._answer()
        self._show()
        self._plot()

    def _report_intents(self, method: str, right: NDArray[np.float64]) -> None:
        intents = self.task.test.intents
        for intent in np.unique(intents):
            fields = {
                "value": float(right[intents == intent].mean()),
                "unlabeled": 1.0,
                "intent": str(intent),
            }
            self.run.detail(data=self.task.name, method=method, metric="recall", **fields)

    def _show(self) -> None:
        """Show the table of methods; `sent+` only if it differs from `sent`."""
        table, hides_plus = [], False
        for (method, part), draws in sorted(self.right.items(), key=lambda entry: entry[0][1]):
            uses_text = method not in ("none", "vectors")
            if method == "sent+":
                gain, error = margin(draws, self.right["sent", part])
                if abs(gain) <= error:
                    hides_plus = True
                    continue
            elif not uses_text and any(row["method"] == DESCRIPTIONS[method] for row in table):
                continue
            row = {
                "method": DESCRIPTIONS.get(method, method),
                "unlabelled text": f"{part:.0%}" if uses_text else "",
                "accuracy": format_with_error(*mean_and_error(draws)),
            }
            if method != "none":
                row["more than n-grams alone"] = format_with_error(*margin(draws, self.right["none", part]), "+")
            if uses_text and part > 0 and (method, 0.0) in self.right:
                row["more than with no text"] = format_with_error(*margin(draws, self.right[method, 0.0]), "+")
            table.append(row)
        self.run.show(table)
        if hides_plus:
            self.run.note("`sent+` is hidden, since it differs from `sent` by at most a standard error")

    def _answer(self) -> None:
        accuracy, none = (mean_and_error(self.right[method, 1.0])[0] for method in ("sent", "none"))
        sentence = f"With all of the unlabeled text `sent` classifies {accuracy:.1%} of the test sentences correctly"
        if ("sent", 0.0) in self.right:
            without_text = self.right["sent", 0.0]
            gain, error = margin(self.right["sent", 1.0], without_text)
            sentence += (
                f", and {mean_and_error(without_text)[0]:.1%} with none of it: {100 * gain:+.1f} ± {100 * error:.1f} "
                f"points (standard error, paired over {describe_sample(without_text)})"
            )
        sentence += f"; an SVM on n-grams alone classifies {none:.1%}"
        if 1.0 in self.chosen:
            auto, _ = mean_and_error(self.right["auto", 1.0])
            chosen = format_choices(self.chosen[1.0])
            sentence += f". Cross-validation chose {chosen}, which classifies {auto:.1%}"
        self.run.answer(f"{sentence}.")

    def _plot(self) -> None:
        figure, axes = new_plot(self.task.name, x="share of the unlabeled text", y="accuracy")
        # Lines often overlap, so every other one is dashed with smaller markers.
        styles = cycle(({"marker": "s", "markersize": 5, "linestyle": "--"}, {"marker": "o", "markersize": 8}))
        for method, style in zip(dict.fromkeys(method for method, _ in self.right), styles, strict=False):
            points = sorted((part, *mean_and_error(draws)) for (m, part), draws in self.right.items() if m == method)
            parts, means, errors = zip(*points, strict=True)
            axes.errorbar(parts, means, errors, capsize=3, label=method, **style)
        from_zero(axes, shares=True)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.legend(frameon=False)
        over = describe_sample(self.right["none", 1.0])
        self.run.plot(
            "accuracy",
            figure,
            "Accuracy on the test sentences against the share of unlabeled text; bars are standard errors over "
            f"{over}.",
        )


def format_with_error(value: float, error: float, sign: str = "") -> str:
    """Format a share and its standard error with three digits.

    >>> format_with_error(0.53203, 0.0085), format_with_error(0.1807, 0.00987, "+")
    ('0.532 ± 0.009', '+0.181 ± 0.010')
    """
    return f"{value:{sign}.3f} ± {error:.3f}"


def format_choices(chosen: Sequence[str]) -> str:
    """Format choices with their counts, most frequent first.

    >>> format_choices(["idf", "sent", "sent"]), format_choices(["sent"])
    ('sent 2, idf 1', 'sent')
    """
    if len(chosen) == 1:
        return chosen[0]
    return ", ".join(f"{part} {times}" for part, times in Counter(chosen).most_common())


def describe_sample(draws: list[NDArray[np.bool_]]) -> str:
    """Return the description of the sample of a standard error.

    >>> describe_sample([np.array([True, False])] * 5), describe_sample([np.array([True, False])])
    ('5 draws', '2 test sentences')
    """
    return f"{len(draws)} draws" if len(draws) > 1 else f"{len(draws[0])} test sentences"


def mean_and_error(draws: list[NDArray[np.bool_]]) -> tuple[float, float]:
    """Return the accuracy and its standard error over draws, or over sentences for one draw."""
    return margin(draws, [np.zeros_like(right) for right in draws])


def margin(ours: list[NDArray[np.bool_]], theirs: list[NDArray[np.bool_]]) -> tuple[float, float]:
    """Return the mean margin and its standard error over draws, or over sentences for one draw."""
    margins = [a.astype(float) - b for a, b in zip(ours, theirs, strict=True)]
    values = np.array([draw.mean() for draw in margins]) if len(margins) > 1 else margins[0]
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


@contextmanager
def on_cluster(run: form.Run, train: LabeledTexts) -> Iterator[None]:
    """Context in which cross-validation runs on the cluster, if there is one and the fits are large enough."""
    if run.client is None or len(train.texts) * len(np.unique(train.intents)) < MIN_CLUSTER_WORK:
        yield
        return
    with joblib.parallel_config("dask"), warnings.catch_warnings():
        # Each batch of fits sends the features of all labeled sentences: tens of megabytes.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        yield
