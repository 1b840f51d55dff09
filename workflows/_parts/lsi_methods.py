"""Methods of the workflow on latent semantic indexing: what is tuned, and how a method is fitted and scored."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import f1_score

from dspectral import HybridLSI, LocalLSI, LocalRecipe
from dspectral.engine import run_tasks
from dspectral.inputs import pair_with_labels
from dspectral.methods.lsi import train_linear_svms

LOCAL = ("rds", "lrw")
ROUGH, FINE = 1e-3, 1e-4
"""How exactly machines are trained, while choosing and at last."""


class F1Scores(NamedTuple):
    """F1 over all classes, averaged in three ways; of a class that is neither true nor found it is 0."""

    weighted: float
    micro: float
    macro: float


class Documents(NamedTuple):
    """Weighted documents, shape (n, d), and 1 where one is in a class, shape (n, L)."""

    rows: sparse.csr_array
    members: sparse.csr_array

    def part(self, rows: NDArray[np.int64]) -> "Documents":
        """Return some of the documents."""
        return Documents(self.rows[rows], self.members[rows])


class Task(NamedTuple):
    """What is to be classified; `exclusive` says that each document has one class."""

    train: Documents
    exclusive: bool
    term_similarity: Any
    seed: int


class Trial(NamedTuple):
    """Settings that share a decomposition, on one fold."""

    method: str
    settings: dict[str, float]
    n_components: tuple[int, ...]
    C: tuple[float, ...]
    fold: int
    n_folds: int


def fitted(
    method: str,
    task: Task,
    train: Documents,
    n_components: int,
    settings: dict[str, float],
    C: float,
    tol: float,
) -> Any:
    """Return a LocalLSI, or a HybridLSI (None for no decomposition)."""
    if method in LOCAL:
        weights = {name: value for name, value in settings.items() if name in LocalRecipe._fields}
        others = {name: value for name, value in settings.items() if name not in weights}
        local = LocalLSI(
            n_components,
            method=method,
            C=C,
            recipe=LocalRecipe(**weights, tol=tol),
            random_state=task.seed,
            **others,
        )
        return local.fit(train.rows, train.members)
    if method == "none":
        return None
    similarity = task.term_similarity if settings.get("beta") else None
    hybrid = HybridLSI(n_components, random_state=task.seed, **{"alpha": 0.0, **settings})
    return hybrid.fit(train.rows, train.members, term_similarity=similarity)


def folded(model: Any, rows: sparse.csr_array) -> Any:
    """Fold documents in: as they are, where there is no decomposition; LocalLSI does it when it scores."""
    return rows if model is None or isinstance(model, LocalLSI) else np.asarray(model.transform(rows), dtype=np.float64)


def scores(
    model: Any, train: Any, members: sparse.csr_array, new: Any, n_components: int, C: float, tol: float
) -> NDArray[np.float64]:
    """Score each class of new documents: by LocalLSI's own machines, or by machines trained on documents folded in.

    Training documents are folded in as new ones are. The first components of a larger decomposition serve.
    """
    if isinstance(model, LocalLSI):
        return np.asarray(model.decision_function(new))
    if model is not None:
        train, new = (np.ascontiguousarray(rows[:, :n_components]) for rows in (train, new))
    machines = train_linear_svms(pair_with_labels(train, members), C, tol, 2000)
    return np.asarray(new @ machines.axes + machines.offsets)


def scored(found: NDArray[np.float64], members: sparse.csr_array, *, exclusive: bool) -> F1Scores:
    """Compare classes: the best where a document has one, else all with a score above 0.

    Classes of `members` behind those that have scores are found for no document.
    """
    unknown = np.full((len(found), members.shape[1] - found.shape[1]), -np.inf)
    found = np.hstack([found, unknown])
    true: Any = members.toarray().argmax(axis=1) if exclusive else members
    predicted: Any = found.argmax(axis=1) if exclusive else sparse.csr_array(found > 0)
    averages = (f1_score(true, predicted, average=name, zero_division=0.0) for name in F1Scores._fields)
    return F1Scores(*map(float, averages))


def trials(
    method: str,
    n_components: Sequence[int],
    grid: dict[str, Sequence[float]],
    C: Sequence[float],
    n_folds: int,
) -> list[Trial]:
    """List what is to be tried for a method.

    A local space needs a fit of its own for each C; others share one over all ranks and C. Local methods are tried at
    the middle rank alone, and what is chosen serves all ranks.
    """
    names = {"hybrid": ("alpha", "beta"), "lsi": ("beta",), "lrw": ("a", "b", "gamma")}.get(method, ())
    settings = [dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))]
    ranks = tuple(sorted(n_components)) if method != "none" else (0,)
    if method in LOCAL:
        ranks = (ranks[len(ranks) // 2],)
    values = [(c,) for c in C] if method in LOCAL else [tuple(C)]
    return [Trial(method, one, ranks, c, fold, n_folds) for one, c, fold in product(settings, values, range(n_folds))]


def tried(trial: Trial, task: Task) -> dict[tuple[int, float], float]:
    """Return the weighted F1 on the fold, for each rank and C.

    A class with fewer than two of the documents left for training is given to none.
    """
    order = np.random.default_rng(task.seed).permutation(task.train.rows.shape[0])
    held = np.sort(order[trial.fold :: trial.n_folds])
    train, test = task.train.part(np.setdiff1d(order, held)), task.train.part(held)
    known = np.flatnonzero(train.members.sum(axis=0) >= 2)
    train = train._replace(members=sparse.csr_array(train.members[:, known]))
    model = fitted(trial.method, task, train, max(trial.n_components), trial.settings, trial.C[0], ROUGH)
    rows, new = folded(model, train.rows), folded(model, test.rows)
    values = {}
    for k, C in product(trial.n_components, trial.C):
        found = np.full(test.members.shape, -np.inf)
        found[:, known] = scores(model, rows, train.members, new, k, C, ROUGH)
        values[k, C] = scored(found, test.members, exclusive=task.exclusive).weighted
    return values


def choices(task: Task, asked: list[Trial]) -> dict[int, tuple[dict[str, float], float]]:
    """Return the settings and C with the best mean over folds, for each rank; a trial is a Dask task.

    Where there is nothing to choose, nothing is tried.
    """
    if len({(tuple(trial.settings.items()), trial.C) for trial in asked}) == 1 and len(asked[0].C) == 1:
        return dict.fromkeys(asked[0].n_components, (asked[0].settings, asked[0].C[0]))
    totals: dict[tuple[int, float, tuple[tuple[str, float], ...]], list[float]] = {}
    tried_all = run_tasks(partial(tried, task=task), asked, name="cross-validate")
    for trial, found in zip(asked, tried_all, strict=True):
        for (k, C), value in found.items():
            totals.setdefault((k, C, tuple(trial.settings.items())), []).append(value)
    best: dict[int, tuple[dict[str, float], float]] = {}
    for k in sorted({k for k, _, _ in totals}):
        _, C, settings = max((key for key in totals if key[0] == k), key=lambda key: np.mean(totals[key]))
        best[k] = (dict(settings), C)
    return best
