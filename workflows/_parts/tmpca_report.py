"""What texts were classified wrongly by the methods of TMPCA's workflow, and what that says."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._form import form
from .._form.plots import new_bars
from .labelled_documents import name_of

TREE = "tmpca"
"""How the names of methods that take a tree begin."""


class Outcome(NamedTuple):
    """What a method did in one split."""

    wrong: NDArray[np.bool_]
    inner_error: float
    cpu_seconds: float
    peak_memory_bytes: int


def report(run: form.Run, found: dict[tuple[str, str], list[Outcome]]) -> None:
    """Add a row for each method and form; of all trees the one with the least error in training is chosen."""
    trees = [outcomes for (method, _), outcomes in found.items() if method.startswith(TREE)]
    if len(trees) > 1:
        found["tmpca+svm", "chosen"] = [
            min(split, key=lambda one: one.inner_error) for split in zip(*trees, strict=True)
        ]
    data = name_of(run.arguments.train)
    words = found.get(("svm", "words"))
    for (method, shown), outcomes in found.items():
        rate, error = error_rate(outcomes)
        values = {
            "error_rate": rate,
            "inner_error_rate": float(np.mean([outcome.inner_error for outcome in outcomes])),
            "cpu_seconds": float(np.mean([outcome.cpu_seconds for outcome in outcomes])),
            "peak_memory_bytes": max(outcome.peak_memory_bytes for outcome in outcomes),
        }
        more: dict[str, Any] = {"standard_error": round(error, 4), "n": len(wrong_of(outcomes))}
        if words is not None:
            over, over_error = difference(outcomes, words)
            more |= {"over_words": over, "over_words_error": over_error}
        for metric, value in values.items():
            fields = more if metric == "error_rate" else {}
            run.row(data=data, method=method, metric=metric, value=value, form=shown, **fields)
    plot(run, found)
    answer(run, found)


def wrong_of(outcomes: list[Outcome]) -> NDArray[np.bool_]:
    """Return which test texts of all splits were classified wrongly."""
    return np.concatenate([outcome.wrong for outcome in outcomes])


def error_rate(outcomes: list[Outcome]) -> tuple[float, float]:
    """Return the error rate over all splits, and its standard error."""
    wrong = wrong_of(outcomes)
    rate = float(wrong.mean())
    return rate, math.sqrt(rate * (1 - rate) / len(wrong))


def difference(ours: list[Outcome], theirs: list[Outcome]) -> tuple[float, float]:
    """Return how much more often we are wrong than they, and its standard error, paired over texts."""
    paired = wrong_of(ours).astype(float) - wrong_of(theirs)
    return float(paired.mean()), float(paired.std() / math.sqrt(len(paired)))


def answer(run: form.Run, found: dict[tuple[str, str], list[Outcome]]) -> None:
    """Say which method errs least, and whether a tree is worth its while against words alone."""
    rates = {key: error_rate(outcomes)[0] for key, outcomes in found.items()}
    best = min(rates, key=lambda key: rates[key])
    trees = [key for key in found if key[0].startswith(TREE)]
    chosen, words = ("tmpca+svm", "chosen"), ("svm", "words")
    tree = chosen if chosen in found else (trees or list(found))[0]
    sentence = f"`{best[0]}` errs least, on {rates[best]:.1%} of the test texts"
    if trees and words in found:
        over, error = difference(found[tree], found[words])
        sentence = (
            f"`{tree[0]}` errs on {rates[tree]:.1%} of the test texts, an SVM on words alone on {rates[words]:.1%}: "
            f"{100 * over:+.1f} ± {100 * error:.1f} points"
        )
        if over > 2 * error:
            run.note(f"Warning: on these texts words alone are better than vectors, take `svm`; {sentence}.")
    run.answer(f"{sentence}.")


def plot(run: form.Run, found: dict[tuple[str, str], list[Outcome]]) -> None:
    """Draw the error of each method."""
    rates, errors = {}, {}
    for (method, shown), outcomes in found.items():
        name = method if shown in ("words", "1") else f"{method} ({shown})"
        rates[name], errors[name] = error_rate(outcomes)
    figure, _ = new_bars(name_of(run.arguments.train), x="error rate", values=rates, errors=errors)
    run.plot(
        "error_rate",
        figure,
        "Share of the test texts that each method (n-gram form) gets wrong, with its standard error.",
    )
