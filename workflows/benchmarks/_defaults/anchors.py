"""Word classes of text without tags: the anchor HMM by its name alone, tuned, as published, and beside peers."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dspectral import EMHMM, AnchorHMM, SpectralBrownClustering
from dspectral.metrics import many_to_one, v_measure

from ..._form import form
from ...pos_induction import states_of
from .family import Family, Found
from .tagged_sets import NAMES, Tagged, read_tagged

N_STATES = 12
"""States, one for each universal tag."""
GRID: dict[str, tuple[Any, ...]] = {
    "spelling": (0.0, 0.1, 0.3, 1.0),
    "min_count": (2, 4, 8),
}
"""What a person would try."""
EM_PASSES = 30
"""Most passes of EM from a random start."""


class Classes(NamedTuple):
    """What one fit found.

    `states`: of the tokens of each sentence; `cpu_seconds`: of the fit.
    """

    states: list[Any]
    cpu_seconds: float


def found(run: form.Run, data: Path, name: str, _scratch: str) -> Iterator[Found]:
    """Learn from a data set in each way, and score the sentences whose tags were not tuned by."""
    tagged, seed = read_tagged(data, name), run.arguments.seed
    AnchorHMM(2, min_count=1, spelling=0.1).fit(
        [["a", "b", "a", "c"]] * 9
    )  # compiles, which no way shall pay for
    default = _fitted(run, f"{name}: default", AnchorHMM(N_STATES, random_state=seed), tagged)
    yield _found("default", "", default, tagged)
    best: tuple[float, str, Classes] | None = None
    for values in product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        said = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in settings.items())
        model = AnchorHMM(N_STATES, **settings, random_state=seed)
        classes = _fitted(run, f"{name}: {said}", model, tagged)
        reached = sum(_scores(classes, tagged, 0).values())
        if best is None or reached > best[0]:
            best = (reached, said, classes)
    if best is not None:
        yield _found("tuned", best[1], best[2], tagged)
    others = {
        "as published": AnchorHMM.as_published(N_STATES, random_state=seed),
        "Brown clusters": SpectralBrownClustering(N_STATES, random_state=seed),
        "EM": EMHMM(N_STATES, n_iter=EM_PASSES, random_state=seed),
    }
    for method, model in others.items():
        yield _found(method, "", _fitted(run, f"{name}: {method}", model, tagged), tagged)


def _fitted(run: form.Run, what: str, model: Any, tagged: Tagged) -> Classes:
    with run.measure(what) as used:
        model.fit(tagged.words)
    run.passes += model.n_passes_
    return Classes(states_of(model, tagged.words), used.cpu_seconds)


def _scores(classes: Classes, tagged: Tagged, first: int) -> dict[str, float]:
    numbers = tagged.half(first)
    states = np.concatenate([classes.states[number] for number in numbers])
    tags = tagged.tags_of(numbers)
    return {"many_to_one": many_to_one(tags, states), "v_measure": v_measure(tags, states)}


def _found(method: str, settings: str, classes: Classes, tagged: Tagged) -> Found:
    return Found(method, settings, classes.cpu_seconds, _scores(classes, tagged, 1))


FAMILY = Family(NAMES, found)
"""What the table asks for."""
