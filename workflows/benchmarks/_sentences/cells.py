"""What each part of a sentence's representation gets right, over draws of labels and amounts of text."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral import IntentClassifier, IntentRecipe, SentenceRepresentation

from ..._form import form
from ..._parts.intent_scores import Labelled, margin, mean_and_error, most_frequent_first
from ...intent_classification import drawn, with_share

PARTS = (*SentenceRepresentation.halves, "none")
"""Both parts, each alone, side by side, and the counts alone; of equals the first is chosen."""
PENALTIES = (1.0, 3.0)
WEIGHTS = (1.0,)
"""What each part has beside it: the better of two penalties by cross-validation, and one weight, for the time."""
GAINS = (
    ("sent", "idf"),
    ("sent", "sketch"),
    ("sketch", "none"),
    ("idf", "none"),
    ("idf+sent", "sent"),
    ("auto", "sent"),
)
"""Differences that say what one part adds to another."""


class Cell(NamedTuple):
    """Where in the table something stands.

    `labelled`: labelled sentences an intent; `share`: share of the other training sentences that is unlabeled
    text; `more`: public queries beside them.
    """

    labelled: str
    share: float
    more: int


class Cells:
    """Which test sentences each method gets right.

    `right`: by cell and method, one array a draw; `chosen`: the part that cross-validation chose, by cell,
    where all parts were learned.
    """

    def __init__(
        self, run: form.Run, name: str, train: Labelled, test: Labelled, queries: Sequence[str]
    ) -> None:
        self.run, self.name, self.train, self.test = run, name, train, test
        self.queries = list(queries)
        self.right: dict[tuple[Cell, str], list[NDArray[np.bool_]]] = {}
        self.chosen: dict[Cell, list[str]] = {}

    def draw(self, labelled: int | None, shares: Sequence[float], mores: Sequence[int], seed: int) -> None:
        """Learn from one draw of labelled sentences, with each amount of text."""
        rows = drawn(self.train.intents, labelled, seed)
        labels = "all" if labelled is None else str(labelled)
        with self.run.measure(f"{self.name}: {labels} labels an intent, draw {seed}"):
            counts = self._fitted(None, "none", rows)
            for cell in cells(labels, shares, mores):
                text = with_share(len(self.train.texts), rows, cell.share, seed)
                texts = [*self.train.at(text).texts, *self.queries[: cell.more]]
                size = min(self.run.arguments.n_components, len(texts))
                learned = SentenceRepresentation(size, random_state=self.run.arguments.seed).fit(texts)
                self.run.passes += learned.n_passes_
                asked = [part for part in PARTS[:-1] if part in self.run.arguments.parts]
                found = {part: self._fitted(learned, part, rows) for part in asked}
                self._keep(cell, found | {"none": counts})

    def _fitted(
        self, learned: SentenceRepresentation | None, part: str, rows: NDArray[np.int64]
    ) -> tuple[float, NDArray[np.bool_]]:
        """Return the cross-validated score, and what is right on the test side."""
        given: dict[str, Any] = {} if learned is None else {"recipe": IntentRecipe(part), "weights": WEIGHTS}
        model = IntentClassifier(learned, C=PENALTIES, random_state=self.run.arguments.seed, **given)
        model.fit(*self.train.at(rows))
        return model.score_, model.predict(self.test.texts) == self.test.intents

    def _keep(self, cell: Cell, found: dict[str, tuple[float, NDArray[np.bool_]]]) -> None:
        """Keep each part, and what ``half="auto"`` would have taken: the same folds, the first of equals."""
        of_choice = {}
        if len(found) == len(PARTS):
            best = max(PARTS, key=lambda part: np.nan_to_num(found[part][0], nan=-1.0))
            self.chosen.setdefault(cell, []).append(best)
            of_choice = {"auto": found[best]}
        for method, (_, right) in (found | of_choice).items():
            self.right.setdefault((cell, method), []).append(right)

    def report(self, half: str) -> None:
        """Add rows: accuracies, what parts add to each other, and what ten times the text added."""
        for (cell, method), draws in self.right.items():
            value, error = mean_and_error(draws)
            settings = most_frequent_first(self.chosen[cell]) if method == "auto" else ""
            self._row(cell, method, "accuracy", (value, error), half=half, settings=settings)
        for cell in dict.fromkeys(cell for cell, _ in self.right):
            for ours, theirs in GAINS:
                if not {(cell, ours), (cell, theirs)} <= self.right.keys():
                    continue
                gained = margin(self.right[cell, ours], self.right[cell, theirs])
                self._row(cell, f"{ours} over {theirs}", "accuracy_gained", gained, half=half)
            for of, less in _less_text(cell):
                if less != cell and {(cell, "sent"), (less, "sent")} <= self.right.keys():
                    gained = margin(self.right[cell, "sent"], self.right[less, "sent"])
                    self._row(cell, of, "accuracy_gained", gained, half=half)

    def _row(self, cell: Cell, method: str, metric: str, found: tuple[float, float], **fields: str) -> None:
        self.run.row(
            data=self.name, method=method, metric=metric, value=found[0], value_error=found[1],
            labelled=cell.labelled, unlabeled=cell.share, queries=cell.more, **fields,
        )  # fmt: skip


def _less_text(cell: Cell) -> Iterator[tuple[str, Cell]]:
    """Yield the cells of less text that a cell is held against, and what each comparison is called."""
    if cell.more:
        yield "sent, with public queries", cell._replace(more=0)
    else:
        yield "sent, ten times the text", cell._replace(share=round(cell.share / 10, 9))
        yield "sent, over the labelled sentences alone", cell._replace(share=0.0)


def cells(labelled: str, shares: Sequence[float], mores: Sequence[int]) -> Iterator[Cell]:
    """Yield the amounts of text.

    >>> [cell[1:] for cell in cells("10", (0.0, 0.1), (500,))], [cell[1:] for cell in cells("all", (0.0, 1.0), (500,))]
    ([(0.0, 0), (0.1, 0), (1.0, 500)], [(1.0, 0), (1.0, 500)])
    """
    for share in sorted(shares) if labelled != "all" else [1.0]:
        yield Cell(labelled, share, 0)
    for more in sorted(mores):
        yield Cell(labelled, 1.0, more)
