"""The sentence that refuses what does not fit in memory, with a number that would."""

import math
from typing import Any

from dspectral.engine.planning.resources import KEY, ROOM
from dspectral.engine.planning.run_plan import RunPlan
from dspectral.engine.planning.samples import Cut
from dspectral.html import size_of

_STEP = 10_000_000
"""Bytes to which a limit that would fit is rounded up."""


def refusal_of(plan: RunPlan, estimator: Any, cut: Cut) -> str:
    """Return why a plan cannot run.

    Parameters
    ----------
    plan : RunPlan
        Plan whose memory is known.
    estimator : object
        Estimator that is to be fitted; None for a function.
    cut : Cut
        How its data is cut.

    Returns
    -------
    str
        One sentence; empty if it fits.
    """
    if plan.memory_limit is None or plan.worker_memory <= ROOM * plan.memory_limit:
        return ""
    whose = "a worker" if plan.n_workers else "this process"
    ways = [_smaller(plan, estimator), _limit(plan)]
    return sentence(plan.name, whose, plan.worker_memory, plan.memory_limit, [way for way in ways if way])


def sentence(name: str, whose: str, need: float, limit: float, ways: list[str]) -> str:
    """Return the sentence of a refusal.

    Parameters
    ----------
    name : str
        Name of what is refused.
    whose : str
        Process that lacks memory.
    need, limit : float
        Bytes that it needs, and may have.
    ways : list of str
        Settings that would fit.

    Returns
    -------
    str
        One sentence.
    """
    said = ", or ".join(ways)
    return (
        f"{name} does not fit in memory: {whose} needs {size_of(need)}, and of its limit of {size_of(limit)} a fit "
        f"may take {size_of(ROOM * limit)}: {said}"
    )


def _limit(plan: RunPlan) -> str:
    needed = math.ceil(plan.worker_memory / ROOM / _STEP) * _STEP
    size = f"{needed / 1e9:.2f} GB"
    if plan.memory_setting == KEY:
        return f"on a machine where this process may have {size}"
    return f"with memory_limit='{size}'"


def _smaller(plan: RunPlan, estimator: Any) -> str:
    """Return the size of the sketch that would fit; summaries are in proportion to it."""
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    if "sketch_size" not in parameters or not plan.phases or plan.memory_limit is None:
        return ""
    k = parameters.get("n_components", 0)
    now = parameters["sketch_size"] or (2 if plan.n_passes == 1 else 3) * k + 10
    of_phase = max(phase.memory for phase in plan.phases)
    base = plan.worker_memory - of_phase
    ratio = (ROOM * plan.memory_limit - base) / of_phase
    fits = int(now * ratio * 0.95)
    if fits < 1:
        return ""
    return f"sketch_size={fits} would fit" if fits >= k else f"n_components={max(1, fits // 3)} would fit"
