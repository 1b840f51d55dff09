"""Labels of sequences: the refinement HMM by its name alone, tuned, as published, and beside peers."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dspectral import RefinementHMM, RefinementRecipe
from dspectral.inputs import as_labelled
from dspectral.metrics import frame_accuracy

from ..._form import form
from ..._parts.sequences import Side, Task
from ...sequence_labelling import part_of
from .family import Family, Found
from .labelled_sequences import SETS, read_task

GRID: dict[str, tuple[Any, ...]] = {
    "n_refinements": (1, 4, 8),
    "n_em_iter": (3, 10),
    "smoothing": (0.01, 0.1),
}
"""What a person would try."""
HELD_OUT = 4
"""Of so many training sequences one is held out for the choice."""
EM_PASSES = 50
"""Most passes of EM from a random start."""


def found(run: form.Run, data: Path, name: str, _scratch: str) -> Iterator[Found]:
    """Learn from a data set in each way."""
    with run.measure(f"{name}: read"):
        task = read_task(data, name)
    seed = run.arguments.seed
    warm = _fitted(RefinementHMM(random_state=seed), task.train)  # compiles, which no way shall pay for
    warm.predict(task.test.tokens[:2])
    default = RefinementHMM(random_state=seed)
    yield _learned(run, f"{name}: default", default, task)
    with run.measure(f"{name}: tune"):
        best = _chosen(run, task, seed)
    yield _learned(run, f"{name}: tuned", best, task)
    operators = RefinementRecipe(decoding="operators")
    published = RefinementHMM(default.n_refinements, recipe=operators, random_state=seed)
    yield _learned(run, f"{name}: as published", published, task)
    plain = RefinementHMM(1, random_state=seed)
    yield _learned(run, f"{name}: plain HMM", plain, task)
    random = RefinementHMM(default.n_refinements, start="random", n_em_iter=EM_PASSES, random_state=seed)
    yield _learned(run, f"{name}: EM", random, task)


def _chosen(run: form.Run, task: Task, seed: int) -> RefinementHMM:
    """Return the model, not fitted, that labels the training sequences held out best."""
    order = np.random.default_rng(seed).permutation(len(task.train.tokens))
    held = part_of(task.train, order[::HELD_OUT].tolist())
    rest = part_of(task.train, np.delete(order, np.s_[::HELD_OUT]).tolist())
    best: tuple[float, RefinementHMM] = (-1.0, RefinementHMM())
    for values in product(*GRID.values()):
        model = RefinementHMM(**dict(zip(GRID, values, strict=True)), random_state=seed)
        reached = frame_accuracy(held.labels, _fitted(model, rest).predict(held.tokens))
        run.passes += model.n_passes_
        best = max(best, (reached, model), key=lambda one: one[0])
    return best[1]


def _fitted(model: RefinementHMM, side: Side) -> RefinementHMM:
    return model.fit(as_labelled(side.tokens, side.labels))


def _said(model: RefinementHMM) -> str:
    """Say the settings of a fitted model, with the passes of EM that it made."""
    made = len(model.log_likelihoods_)
    return f"{model.n_refinements} refinements, EM {made}, smoothing {model.smoothing:g}"


def _learned(run: form.Run, what: str, model: RefinementHMM, task: Task) -> Found:
    with run.measure(what) as used:
        _fitted(model, task.train)
    run.passes += model.n_passes_
    accuracy = frame_accuracy(task.test.labels, model.predict(task.test.tokens))
    return Found(what.partition(": ")[2], _said(model), used.cpu_seconds, {"accuracy": accuracy})


FAMILY = Family(tuple(SETS), found)
"""What the table asks for."""
