"""Models that were saved under older names: parameters and attributes are given those of today."""

import inspect
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

RENAMED = {
    "initial_C": "initial_c",
    "max_passes": "max_iter",
    "polish": "n_em_iter",
    "refine": "n_sweeps",
    "sweeps": "n_sweeps",
    "transform": "count_transform",
    "transition_iter": "n_transition_em_iter",
}
"""Parameters by the name that format 1 of saved models may hold."""
GONE = {
    "batch_size",
    "document_classes",
    "document_similarity",
    "fan_in",
    "memory_limit",
    "n_jobs",
    "shrink",
    "smooth_idf",
    "sublinear_tf",
    "term_similarity",
    "use_idf",
}
"""Parameters that a fitted model has no use for: where or on what data it was fitted, or what others say today."""
ATTRIBUTES = {("AnchorHMM", "classes_"): "spelling_classes_"}
"""Attributes by class and older name."""


def parameters_of_today(kind: type, saved: dict[str, Any]) -> dict[str, Any]:
    """Return saved parameters under the names that the constructor of a class has today."""
    known = inspect.signature(kind).parameters
    recipe = _recipe_class(kind)
    today: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for old, value in saved.items():
        name = old if old in known else RENAMED.get(old, old)
        if name in known:
            today[name] = value
        elif name in recipe._fields:
            fields[name] = value
        elif name not in GONE:
            raise ValueError(
                f"a {kind.__name__} was saved with the parameter {old!r}, which this version does not know: load it "
                "with the version that saved it"
            )
    if saved.get("shrink") == "median":  # the schedule of the paper is a solver of its own
        today["solver"] = "median_frequent_directions"
    if "use_idf" in saved:  # tf-idf says by two parameters what it said by four
        form = "smooth" if saved["smooth_idf"] else "plain"
        today |= {"idf": form if saved["use_idf"] else None}
        today |= {"tf": "sublinear"} if saved["sublinear_tf"] else {}
    # Fields of a recipe that was saved stay beside those that were parameters then.
    return {**today, "recipe": (today.get("recipe") or recipe())._replace(**fields)} if fields else today


def attributes_of_today(kind: type, saved: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return fitted attributes under the names of today, with those that older versions did not keep."""
    today = {ATTRIBUTES.get((kind.__name__, name), name): value for name, value in saved.items()}
    added: dict[str, Any] = {}
    if kind.__name__ == "MomentMultiLabelClassifier":
        added = _once_given(saved, parameters)
    if kind.__name__ == "VectorQuantizer":
        added = {"n_features_in_": len(saved["mean_"])}
    return {**added, **today}


def _once_given(saved: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what a classifier of many labels chooses today, of one for which it was given or the default of then."""
    alpha = getattr(parameters.get("recipe"), "alpha", 0.1)
    return {
        "classes_": np.arange(len(saved["label_totals_"])),
        "indicator_dtype_": None,
        "n_states_": len(saved["state_weights_"]),
        "smoothing_": parameters.get("smoothing", 0.01),
        "n_em_iter_": parameters.get("n_em_iter", 0),
        "alpha_": alpha if saved.get("linear_") is not None else None,
        "n_held_out_": 0,
    }


def _recipe_class(kind: type) -> Any:
    """Return the class of the constructor's argument ``recipe``, or a class without fields."""
    if "recipe" not in inspect.signature(kind).parameters:
        return NamedTuple("NoRecipe", [])
    annotation = get_type_hints(kind.__init__)["recipe"]  # type: ignore[misc]
    return next(one for one in (annotation, *get_args(annotation)) if hasattr(one, "_fields"))
