"""Plan a fit or a build: probe it on a few blocks, extend what was found, and compare it with what there is."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dspectral.engine.grouping import Whole, standing_for
from dspectral.engine.merge_tree import tree_depth
from dspectral.engine.planning.admission import LIBRARIES, There
from dspectral.engine.planning.phases import Phase, phases_of
from dspectral.engine.planning.probing import heap_bytes, probe
from dspectral.engine.planning.recording import Probe
from dspectral.engine.planning.refusing import refusal_of
from dspectral.engine.planning.resources import ROOM, Resources, resources
from dspectral.engine.planning.run_plan import RunPlan
from dspectral.engine.planning.samples import Cut, chosen, first_data, take
from dspectral.engine.planning.scales import NOISE_OF_TIME, Scale, along, expected

SIZES = (1, 2, 4, 8, 16)
"""Blocks of samples. Two and four are used, and the next ones where they are quick; one where there is no other, more
where a method refuses fewer."""
SAMPLE_BLOCKS = 4
FAN_INS = (2, 3, 4, 8, 16)
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SAMPLERS: dict[str, Callable[..., tuple[Any, ...]]] = {}
"""For functions that read no blocks but files: what makes the calls of their samples, by the function's name."""


def plan(
    what: Any,
    *arguments: Any,
    workers: int | None = None,
    memory_limit: str | float | None = None,
    **keywords: Any,
) -> RunPlan:
    """Say what a fit or a build will take: passes, tasks, bytes, memory and time.

    Parameters
    ----------
    what : estimator or callable
        An estimator, whose ``fit`` is planned; or its ``fit`` itself, or a function such as
        :func:`dspectral.build_store`.
    *arguments
        Arguments of ``fit`` or of the function.
    workers : int, optional
        Number of worker processes that will be started, with one thread each. By default the workers of the client in
        force, or the threads of this process.
    memory_limit : str or float, optional
        Bytes that each of them may have, such as ``"2 GB"``. By default what the workers were given; for threads
        ``dspectral.worker-memory`` of Dask's configuration, or what the machine has left.
    **keywords
        More of what ``fit`` or the function will be given.

    Returns
    -------
    RunPlan
        The plan. Nothing is refused yet: :meth:`RunPlan.check` does that.

    Raises
    ------
    ValueError
        If there is no data among the arguments, or the method refuses it.
    MemoryError
        If a few blocks alone do not fit on this machine.

    Notes
    -----
    A process of its own runs the fit on two blocks, again on two, on four, and on eight and sixteen if that is quick;
    with several workers on this machine as many processes do so at the same time. A method that stops when it has
    converged is taken to need as many passes as on the largest of these samples. Seconds are those of a fit on workers
    that have started; they hold for machines like this one, on which nothing else runs.

    Examples
    --------
    >>> import dask.array as da
    >>> from dspectral import SketchedPCA
    >>> found = plan(SketchedPCA(2), da.random.default_rng(0).standard_normal((600, 8), chunks=(100, -1)))
    >>> found.n_passes, found.n_tasks
    (1, 11)
    """
    function = what if callable(what) and not hasattr(what, "fit") else what.fit
    there = resources(workers, memory_limit)
    sampler = SAMPLERS.get(getattr(function, "__name__", ""))
    calls, scale, cut = (sampler or calls_of)(function, arguments, keywords)
    n_at_once = min(there.machines.n_workers, _processors()) if there.on_this_machine else 1
    packages = _packages() if there.machines.n_workers else ()
    call = partial(_call, Whole(_memory(there), scale.n_blocks))
    found = probe(call, calls, scale.weights, n_at_once=max(1, n_at_once), packages=packages)
    owner = getattr(function, "__self__", None)
    name = type(owner).__name__ if owner is not None else function.__name__
    return _planned(name, owner, found, scale, cut, there)


def calls_of(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[list[tuple[Any, ...]], Scale, Cut]:
    """Return the same call with a few blocks of the data."""
    cut = first_data(arguments, keywords)
    if cut is None:
        raise ValueError("there is no data to plan for: give what fit will be given")
    n = len(cut.rows)
    sizes = sorted({min(size, n) for size in SIZES})
    numbers = {size: chosen(cut, size) for size in sizes}
    calls = [
        (
            function,
            tuple(take(one, numbers[size], cut) for one in arguments),
            {name: take(one, numbers[size], cut) for name, one in keywords.items()},
        )
        for size in sizes
    ]
    total = sum(cut.weights) or 1.0

    def weight(size: int) -> float:
        return sum(cut.weights[i] for i in numbers[size]) / total

    return calls, Scale(n, tuple(sizes), tuple(map(weight, sizes))), cut


def sample_of(
    arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the largest sample that a plan of a fit is made of.

    >>> import dask.array as da
    >>> (rows,), _ = sample_of((da.ones((90, 2), chunks=(10, -1)),), {})
    >>> rows.shape
    (40, 2)
    """
    cut = first_data(arguments, keywords)
    if cut is None:
        return arguments, dict(keywords)
    numbers = chosen(cut, SAMPLE_BLOCKS)
    return (
        tuple(take(one, numbers, cut) for one in arguments),
        {name: take(one, numbers, cut) for name, one in keywords.items()},
    )


def _call(
    whole: Whole, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> object:
    with standing_for(whole):
        return function(*arguments, **keywords)


def _memory(there: Resources) -> There | None:
    """Return the memory of the run that is planned, as its passes will find it."""
    n_workers, n_threads, limit = there.machines.n_workers, there.machines.n_threads, there.limit
    taken = max(LIBRARIES, there.resident) if n_workers else there.resident
    return None if limit is None else There(n_workers, n_threads, limit, taken)


def _planned(name: str, owner: Any, found: Probe, scale: Scale, cut: Cut, there: Resources) -> RunPlan:
    """Extend what a probe found to the whole."""
    scale = Scale(
        scale.n_blocks,
        tuple(scale.samples[i] for i in found.used),
        tuple(scale.weights[i] for i in found.used),
    )
    runs, machines = found.runs, there.machines._replace(byte_seconds=found.byte_seconds)
    there = there._replace(machines=machines)
    phases = phases_of(runs, scale, machines, cut.read)
    between = along(scale, [run.between - run.before for run in runs])
    serial = expected(scale, [run.serial for run in runs], noise=NOISE_OF_TIME)
    most = max((phase.memory for phase in phases), default=0)
    client = int(max(there.resident if not machines.n_workers else 0, found.base) + between)
    if machines.n_workers:
        fresh = max(there.resident, found.bare) + found.working
        worker = there.resident + most if there.has_worked else fresh + most + min(most, heap_bytes())
    else:
        held = along(
            scale, [max((one.before for one in run.passes), default=run.before) - run.before for run in runs]
        )
        worker = client = int(max(client, max(there.resident, found.base) + held + most))
    result = RunPlan(
        name,
        machines.n_workers,
        machines.n_threads,
        machines.fan_in,
        scale.n_blocks,
        phases,
        found.warm_up if not there.has_worked else 0.0,
        serial,
        int(worker),
        client,
        there.limit,
        there.what,
        probe_seconds=found.seconds,
    )
    best = _best(result, found, scale, cut, there)
    return replace(result, best=best, refusal=refusal_of(result, owner))


def _best(known: RunPlan, found: Probe, scale: Scale, cut: Cut, there: Resources) -> dict[str, Any]:
    """Return the fan-in and the size of blocks that take the least time within the memory there is."""

    def cost(phases: list[Phase]) -> tuple[bool, float, int]:
        most = max((phase.memory for phase in phases), default=0)
        over = most - max(phase.memory for phase in known.phases) + known.worker_memory
        is_over = there.limit is not None and over > ROOM * there.limit
        return is_over, round(sum(phase.seconds for phase in phases), 2), most

    if not known.phases:
        return {}
    fan_ins = {
        n: cost(phases_of(found.runs, scale, there.machines._replace(fan_in=n), cut.read)) for n in FAN_INS
    }
    return {"fan_in": min(fan_ins, key=lambda n: fan_ins[n]), "block_factor": _factor(known, there)}


def _factor(known: RunPlan, there: Resources) -> float:
    """Return how many times as large blocks should be: few merges, but enough blocks for all workers."""
    merged = [phase for phase in known.phases if phase.n_merges]
    if not merged:
        return 1.0
    largest = max(merged, key=lambda phase: phase.memory)
    depth = tree_depth(known.n_blocks, known.fan_in)
    of_block = max(0, largest.memory - (depth + 2) * largest.summary_bytes)
    best = 1.0
    for factor in FACTORS:
        enough = known.n_blocks / factor >= 4 * there.machines.n_at_once
        need = known.worker_memory + (factor - 1) * of_block
        fits = there.limit is None or need <= ROOM * there.limit
        if enough and fits and factor > best:
            best = factor
    too_large = there.limit is not None and known.worker_memory > ROOM * there.limit
    return best if not too_large else min(FACTORS)


def _packages() -> list[str]:
    """Return what a worker that is started here loads: Dask's own, and the module that runs as a program."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return ["distributed.nanny", *([spec.name] if spec else [])]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
