"""What a report says first of word vectors: whose neighbours they make, and how they score."""

from typing import Any

import numpy as np

from dspectral.types import FloatArray

from .._form import form
from .._form.plots import new_bars

SHORT = {
    "spearman": "similarity",
    "accuracy_3cosadd": "analogies",
    "accuracy_3cosmul": "analogies by products",
}
"""What the metrics are called in the picture."""
LEAST_RANK, LEAST_LETTERS, MOST_BARS = 100, 5, 12


def neighbours(words: list[str], vectors: FloatArray, n_words: int = 3, k: int = 3) -> str:
    """Return, as text, the nearest words to some that are frequent, but say something.

    Shapes: `vectors` (n, d).

    >>> neighbours(["river", "water", "knife"], np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), n_words=1, k=1)
    'nearest to “river”: water'
    """
    telling = [i for i, word in enumerate(words) if len(word) >= LEAST_LETTERS and word.isalpha()]
    chosen = ([i for i in telling if i >= LEAST_RANK] or telling)[:n_words]
    said = []
    for i in chosen:
        similar = vectors @ vectors[i]
        similar[i] = -np.inf
        best = np.argsort(-similar, kind="stable")[: min(k, len(words) - 1)]
        said.append(f"nearest to “{words[i]}”: {', '.join(words[j] for j in best)}")
    return "; ".join(said)


def scores_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the scores of the lists by a name for each, the best where several settings share it."""
    found: dict[str, float] = {}
    for row in rows:
        if row["metric"] in SHORT and row["value"] is not None:
            part = "" if row["part"] == "all" else f" ({row['part']})"
            name = f"{row['data']}{part}: {SHORT[row['metric']]}, {row['method']}"
            found[name] = max(found.get(name, -1.0), row["value"])
    return found


def show(run: form.Run, neighbours_found: str) -> None:
    """State the answer, and draw the scores before all other pictures, where there are any."""
    scores = scores_of(run.report.rows)
    sentence = neighbours_found[:1].upper() + neighbours_found[1:]
    if scores:
        best = max(scores, key=lambda name: scores[name])
        sentence += f"; of {len(scores)} scores the best is {scores[best]:.1%} ({best})"
        shown = dict(list(scores.items())[:MOST_BARS])
        figure, _ = new_bars(
            "Scores of the lists", x="rank correlation, or share of right answers", values=shown
        )
        run.plot(
            "scores",
            figure,
            "Rank correlation with people's judgements, and share of analogies that are right.",
        )
        run.report.plots.insert(0, run.report.plots.pop())
    if sentence:
        run.answer(f"{sentence}.")
