"""Many labels: documents and labels drawn from known states, and the labels of further documents ranked."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

import dspectral

from .race import Contender, Found, Race, Settings

MOST_SCORED = 500
"""Further documents whose labels are ranked, as a part of what is measured."""
BASELINES = f"{__package__.rpartition('.')[0].rpartition('.')[0]}._parts.multilabel_baselines"


def make(folder: Path, s: Settings) -> str:
    """Write a store of documents with their labels, and further documents."""
    places = {"learned.zarr": s["documents"], "others.zarr": min(MOST_SCORED, s["documents"])}
    for seed, (place, n) in enumerate(places.items(), start=s["seed"]):
        words, labels = dspectral.datasets.labelled_counts(
            n, s["words"], s["labels"], s["states"], block_rows=max(1, min(20_000, n // 4)), seed=seed
        )
        store = dspectral.write_counts(words, str(folder / place), labels=labels)
        if place == "others.zarr":
            sparse.save_npz(folder / "others.npz", sparse.csr_array(store.counts.compute()))
            sparse.save_npz(folder / "truth.npz", sparse.csr_array(store.labels.compute()))
    return f"{s['documents']:,} documents, {s['words']:,} words, {s['labels']:,} labels, {s['states']} states"


def accuracy(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return the area under the curve, and the precision of the first label."""
    truth = sparse.load_npz(folder / "truth.npz")
    return {
        "auc": float(np.nanmean(dspectral.metrics.document_auc(found["scores"], truth))),
        "precision_at_1": float(np.nanmean(dspectral.metrics.precision_at(found["scores"], truth, 1))),
    }


def _learned(model: Any, folder: Path) -> Callable[[], Found]:
    store = dspectral.open_store(str(folder / "learned.zarr"))
    others = sparse.load_npz(folder / "others.npz")
    return lambda: {"scores": model.fit(store).decision_function(others)}


def ours(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Find the states by moments, in three passes over the store."""
    return _learned(library.MomentMultiLabelClassifier(s["states"]), folder)


def one_vs_rest(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Found]:
    """Learn scikit-learn's logistic regression for each label, in memory."""
    return _learned(library.OneVsRest(), folder)


def low_rank(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Learn a linear model of as many dimensions by alternating least squares."""
    return _learned(library.LowRank(s["states"], iterations=s["turns"]), folder)


RACE = Race(
    f"Learn to rank labels, and rank those of up to {MOST_SCORED} further documents.",
    {
        "toy": {"documents": 400, "words": 200, "labels": 12, "states": 4, "turns": 1},
        "small": {"documents": 4_000, "words": 3_000, "labels": 100, "states": 20, "turns": 10},
        "middle": {"documents": 8_000, "words": 5_000, "labels": 200, "states": 30, "turns": 10},
        "full": {"documents": 300_000, "words": 200_000, "labels": 13_330, "states": 50, "turns": 10},
    },
    make,
    {
        "dspectral": Contender("dspectral", ours),
        "one-vs-rest, scikit-learn": Contender(BASELINES, one_vs_rest),
        "low rank, least squares": Contender(BASELINES, low_rank),
    },
    accuracy,
)
