"""Hybrid and local LSI: by their names alone, tuned, as the papers set them, and beside peers."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from dspectral import HybridLSI, LocalLSI
from dspectral.inputs import labelled_streams
from dspectral.methods.lsi import LocalRecipe, Training, train_linear_svms

from ..._form import form
from ..._parts.lsi_methods import Documents, scored
from .document_sets import SETS, Sides, read_documents
from .family import Family, Found

HYBRID: dict[str, tuple[Any, ...]] = {
    "n_components": (100, 300),
    "alpha": (0.1, 0.5, 0.9),
    "C": (1.0, 10.0),
}
"""What a person would try with Hybrid LSI."""
LOCAL: dict[str, tuple[Any, ...]] = {
    "n_components": (25, 100),
    "method": ("rds", "lrw"),
    "C": (1.0, 3.0, 10.0),
}
"""The same for local spaces."""
PUBLISHED: dict[str, tuple[Any, ...]] = {**HYBRID, "n_components": (100,)}
"""Of Hybrid LSI as published: weights are chosen at each rank; this is the rank."""
LOCAL_PUBLISHED: dict[str, tuple[Any, ...]] = {**LOCAL, "n_components": (100,), "method": ("lrw",)}
"""Of local spaces as published: relevancies that weigh documents, a slope of 5 and a shift of .2."""
HELD_OUT = 4
"""Of so many training documents one is held out for the choice."""
ROUGH, FINE = 1e-3, 1e-4
"""How exactly machines are trained while choosing, and at last."""
OWN: dict[str, tuple[Any, ...]] = {"C": (LocalLSI().C,)}
"""Of local spaces by default: nothing, they have machines of their own."""

Scorer = Callable[[Any], Any]
Learner = Callable[[float, float], Scorer]
Model = Callable[[dict[str, Any], Documents, int], Learner]
"""Decomposes with settings and a seed; what it returns trains machines, given C and a tolerance, that score rows."""


def hybrid(settings: dict[str, Any], train: Documents, seed: int) -> Learner:
    """Decompose documents whose classes are known, for linear machines on documents folded in."""
    model = HybridLSI(**settings, random_state=seed).fit(train.rows, train.members)
    return _machines(model.transform, train)


def local(settings: dict[str, Any], train: Documents, seed: int) -> Learner:
    """Learn the space of each class, with its machine."""

    def learned(C: float, tol: float) -> Scorer:
        model = LocalLSI(**settings, C=C, recipe=LocalRecipe(tol=tol), random_state=seed)
        return model.fit(train.rows, train.members).decision_function

    return learned


def plain(settings: dict[str, Any], train: Documents, seed: int) -> Learner:
    """Decompose by scikit-learn's truncated SVD, for the same machines."""
    most = min(settings["n_components"], min(train.rows.shape) - 1)
    return _machines(TruncatedSVD(most, random_state=seed).fit(train.rows).transform, train)


def words(_settings: dict[str, Any], train: Documents, seed: int) -> Learner:
    """Train scikit-learn's linear machines on all terms."""
    members = sparse.csr_matrix(train.members)

    def learned(C: float, tol: float) -> Scorer:
        machine = LinearSVC(C=C, tol=tol, random_state=seed)
        return OneVsRestClassifier(machine).fit(train.rows, members).decision_function

    return learned


def _machines(fold: Callable[[Any], Any], train: Documents) -> Learner:
    rows = np.asarray(fold(train.rows), dtype=np.float64)

    def learned(C: float, tol: float) -> Scorer:
        machines = train_linear_svms(labelled_streams(rows, train.members), Training(C, tol, 2000))
        return lambda new: np.asarray(fold(new), dtype=np.float64) @ machines.axes + machines.offsets

    return learned


def of(
    model: Model, default: dict[str, Any], grid: dict[str, Any], published: dict[str, Any]
) -> Callable[..., Iterator[Found]]:
    """Return what learns in each way from a data set, a family's ``found``, with what each way chooses from."""

    def found(run: form.Run, data: Path, name: str, _scratch: str) -> Iterator[Found]:
        with run.measure(f"{name}: read"):
            sides = read_documents(data, name)
        grids = {
            "default": (model, default),
            "tuned": (model, grid),
            "as published": (model, published),
            "LSI": (plain, {key: grid[key] for key in ("n_components", "C")}),
            "words alone": (words, {"C": grid["C"]}),
        }
        with run.measure(f"{name}: choose"):  # before anything is measured, so that no way pays for compiling
            chosen = [_chosen(run, learner, tried, sides) for learner, tried in grids.values()]
        for (way, (learner, _)), settings in zip(grids.items(), chosen, strict=True):
            yield _learned(run, f"{name}: {way}", learner, settings, sides)

    return found


def _learned(run: form.Run, what: str, model: Model, settings: dict[str, Any], sides: Sides) -> Found:
    given = dict(settings)
    with run.measure(what) as used:
        C = given.pop("C")
        decide = model(_possible(given, sides.train), sides.train, run.arguments.seed)(C, FINE)
    marks = scored(np.asarray(decide(sides.test.rows)), sides.test.members, exclusive=sides.exclusive)
    said = ", ".join(f"{key} {value}" for key, value in settings.items())
    return Found(what.partition(": ")[2], said, used.cpu_seconds, {"f1_weighted": marks.weighted})


def _chosen(run: form.Run, model: Model, grid: dict[str, Any], sides: Sides) -> dict[str, Any]:
    """Return the settings with the best weighted F1 on training documents held out; or the only ones."""
    penalties = grid["C"]
    names = [name for name in grid if name != "C"]
    spaces = [dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))]
    totals = np.zeros((len(spaces), len(penalties)))
    if totals.size == 1:
        return {**spaces[0], "C": penalties[0]}
    order = np.random.default_rng(run.arguments.seed).permutation(sides.train.rows.shape[0])
    held = np.sort(order[::HELD_OUT])
    train, test = sides.train.part(np.setdiff1d(order, held)), sides.train.part(held)
    # A class that is not left for training twice is given to none.
    known = np.flatnonzero(train.members.sum(axis=0) > 1)
    train = train._replace(members=sparse.csr_array(train.members[:, known]))
    for row, settings in enumerate(spaces):
        learned = model(_possible(settings, train), train, run.arguments.seed)
        for column, C in enumerate(penalties):
            reached = np.full(test.members.shape, -np.inf)
            reached[:, known] = learned(C, ROUGH)(test.rows)
            totals[row, column] = scored(reached, test.members, exclusive=sides.exclusive).weighted
    row, column = np.unravel_index(int(np.argmax(totals)), totals.shape)
    return {**spaces[int(row)], "C": penalties[int(column)]}


def _possible(settings: dict[str, Any], train: Documents) -> dict[str, Any]:
    """Take no more components than a small data set has."""
    if "n_components" not in settings:
        return settings
    return {**settings, "n_components": min(settings["n_components"], *train.rows.shape)}


FAMILY = Family(tuple(SETS), of(hybrid, {"C": HYBRID["C"]}, HYBRID, PUBLISHED))
"""Hybrid LSI, as the table asks for it."""
LOCAL_FAMILY = Family(tuple(SETS), of(local, OWN, LOCAL, LOCAL_PUBLISHED))
"""Spaces of one class each, the same."""
