"""Many labels: the classifier by its name alone, tuned, as published, and beside two peers."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from dspectral import MomentMultiLabelClassifier
from dspectral.methods.multilabel import MultiLabelRecipe
from dspectral.store import CountStore

from ..._form import form
from ..._parts.multilabel_baselines import LowRank, OneVsRest
from ..._parts.multilabel_stores import parted
from ...multilabel import scores
from .family import Family, Found
from .labelled_sets import NAMES, read_set

N_STATES = 100
"""Rank of the peer: as many as there are states."""
METRICS = ("auc", "precision_at_1")
GRID: dict[str, tuple[Any, ...]] = {
    "smoothing": (0.3, 0.6, 0.9),
    "n_em_iter": (0, 2),
    "alpha": (0.001, 0.01, 0.1),
}
"""What a person would try."""
HELD_OUT = 0.25
"""Share of the training documents that a person would hold out."""


def found(run: form.Run, data: Path, name: str, scratch: str) -> Iterator[Found]:
    """Learn from a data set in each way."""
    seed = run.arguments.seed
    with run.measure(f"{name}: read"):
        train, test = read_set(data, name, scratch, seed)
    most = min(N_STATES, train.n_rows, train.n_columns)
    default = MomentMultiLabelClassifier(random_state=seed)
    yield _scored(run, name, "default", default, train, test)
    settings = _tuned(run, name, parted(train, HELD_OUT, seed, f"{scratch}/held-out"))
    tuned = _made(seed, settings)
    yield _scored(run, name, "tuned", tuned, train, test)
    published = MomentMultiLabelClassifier.as_published(default.n_states_, random_state=seed)
    yield _scored(run, name, "as published", published, train, test)
    yield _scored(run, name, "low-rank", LowRank(most, seed=seed), train, test)
    yield _scored(run, name, "one-vs-rest", OneVsRest(), train, test)


def _tuned(run: form.Run, name: str, parts: tuple[CountStore, CountStore]) -> dict[str, Any]:
    """Return the settings with the largest sum of area and precision of the first label on documents held out."""
    train, held_out = parts
    best: tuple[float, dict[str, Any]] = (-1.0, {})
    with run.measure(f"{name}: tune"):
        for values in product(*GRID.values()):
            settings = dict(zip(GRID, values, strict=True))
            model = _made(run.arguments.seed, settings).fit(train)
            run.passes += model.n_passes_
            reached = scores(model, train, held_out)
            best = max(best, (sum(reached[metric] for metric in METRICS), settings), key=lambda one: one[0])
    return best[1]


def _made(seed: int, settings: dict[str, Any]) -> MomentMultiLabelClassifier:
    given = dict(settings)
    recipe = MultiLabelRecipe(alpha=given.pop("alpha"))
    return MomentMultiLabelClassifier(recipe=recipe, random_state=seed, **given)


def _scored(run: form.Run, name: str, method: str, model: Any, train: CountStore, test: CountStore) -> Found:
    with run.measure(f"{name}: {method}") as used:
        model.fit(train)
    run.passes += model.n_passes_ if isinstance(model, MomentMultiLabelClassifier) else model.n_passes
    reached = scores(model, train, test)
    settings = ""
    if isinstance(model, MomentMultiLabelClassifier):
        asked = {
            "states": model.n_states_,
            "smoothing": model.smoothing_,
            "EM": model.n_em_iter_,
            "alpha": model.alpha_,
        }
        settings = ", ".join(
            f"{what} {value:.2g}" if isinstance(value, float) else f"{what} {value}"
            for what, value in asked.items()
            if value is not None
        )
    return Found(method, settings, used.cpu_seconds, {metric: reached[metric] for metric in METRICS})


FAMILY = Family(NAMES, found)
"""What the table asks for."""
