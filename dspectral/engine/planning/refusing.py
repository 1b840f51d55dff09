"""The sentence that refuses what does not fit in memory, with a number that would."""

import math
from typing import Any

from dspectral.engine.planning.resources import ROOM
from dspectral.engine.planning.run_plan import RunPlan
from dspectral.html import size_of

_STEP = 10_000_000
"""Bytes to which a limit that would fit is rounded up."""
_MARGIN = 0.95
"""The share of the size of a sketch that would fit which is proposed, since blocks differ."""


def refusal_of(plan: RunPlan, estimator: Any) -> str:
    """Return why a plan cannot run."""
    if plan.memory_limit is None or plan.worker_memory <= ROOM * plan.memory_limit:
        return ""
    whose = "a worker" if plan.n_workers else "this process"
    of_phase = max((phase.memory for phase in plan.phases), default=1)
    base = plan.worker_memory - of_phase
    ratio = (ROOM * plan.memory_limit - base) / max(1, of_phase)
    ways = [workers_or_limit(plan.worker_memory / ROOM, by_threads=not plan.n_workers)]
    ways += smaller_sketch(estimator, ratio)
    return sentence(plan.name, whose, plan.worker_memory, plan.memory_limit, ROOM, ways)


def sentence(name: str, whose: str, need: float, limit: float, share: float, ways: list[str]) -> str:
    """Return the sentence of a refusal.

    >>> sentence("SketchedPCA", "a worker", 9e8, 5e8, 0.9, ["with memory_limit='1GB' it fits"])
    "SketchedPCA does not fit in memory: a worker needs 900 MB, and may take 450 MB of its 500 MB; with \
memory_limit='1GB' it fits"
    """
    there = f"{whose} needs {size_of(need)}, and may take {size_of(share * limit)} of its {size_of(limit)}"
    return "; ".join([f"{name} does not fit in memory: {there}", *ways])


def workers_or_limit(needed: float, *, by_threads: bool) -> str:
    """Return the limit of memory that would fit.

    >>> workers_or_limit(1.234e9, by_threads=False)
    "with memory_limit='1240MB' it fits"
    """
    size = f"{math.ceil(needed / _STEP) * _STEP // 1_000_000}MB"
    if by_threads:
        return f"it fits where this process may have {size} (dspectral.worker-memory), or by fewer threads"
    return f"with memory_limit={size!r} it fits"


def smaller_sketch(estimator: Any, ratio: float) -> list[str]:
    """Return the size of the sketch that would fit, to which summaries are in proportion."""
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    k = parameters.get("n_components")
    if "sketch_size" not in parameters or not k:
        return []
    n_passes = parameters.get("n_passes", 1)
    now = parameters["sketch_size"] or (2 if n_passes == 1 else 3) * k + 10
    fits = int(now * ratio * _MARGIN)
    if fits < k:
        return [f"with n_components={fits // 3} it fits"] if fits >= 3 else []
    return [f"with sketch_size={fits} it fits"]
