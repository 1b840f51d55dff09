"""A wide factor goes out in groups of columns, one pass over the blocks for each: as few as fit in memory."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from dspectral.engine.configuration import asked_memory_limit, configured_fan_in
from dspectral.engine.fits import fit_in_force
from dspectral.engine.planning.admission import ENDS_AT, There, known_need, memory_of, needed
from dspectral.engine.planning.refusing import sentence, workers_or_limit
from dspectral.engine.row_blocks import Stream, in_cuts, is_in_memory
from dspectral.engine.running import bytes_of
from dspectral.engine.telling import client_in_force
from dspectral.types import FloatArray

SPILLS_AT = 0.7
"""Share of its limit at which Dask's worker begins to write results to disk."""

MOST_TIMES = 2
"""Times the passes that are taken to stay below :data:`SPILLS_AT`."""


class Whole(NamedTuple):
    """The run that a probe of a plan stands for.

    `there`: memory of the processes that will do the work; `n_blocks`: blocks of all data.
    """

    there: There | None
    n_blocks: int


_WHOLE: ContextVar[Whole | None] = ContextVar("whole", default=None)


@contextmanager
def standing_for(whole: Whole) -> Iterator[None]:
    """Count groups within the body as for a run on all blocks, by the processes that will do it."""
    token = _WHOLE.set(whole)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def column_groups(
    X: Stream, of: Callable[[FloatArray], Callable[..., Any]], shape: tuple[int, int], dtype: DTypeLike
) -> int:
    """Return in how many groups of columns a factor has to go out, each bound to the function of a pass of its own.

    The law is that of ``engine.planning.admission.admit`` for the factor of a group, and a merge and a copy of the
    factor on top: where workers are of unequal speed, summaries wait for neighbors that are late, and what is received
    is copied to where words begin. A worker may take 70 % of its limit, where Dask begins to spill; this process as
    much of its own, and no more than ``dspectral.memory-limit`` where that is set. What fits only in 95 %, at which
    workers are ended, still runs; so does what would need more than twice as many passes in 70 %.
    """
    in_memory = is_in_memory(X)
    arrays = [in_cuts(X, "product", in_memory=in_memory)]
    whole = _WHOLE.get() or Whole(memory_of(None if in_memory else client_in_force()), arrays[0].numblocks[0])
    there, width = whole.there, shape[1]
    if there is None:
        return 1
    fan_in = configured_fan_in()
    asked = None if there.n_workers else asked_memory_limit()

    def need(n_columns: int) -> int:
        factor = np.broadcast_to(np.zeros((), dtype=dtype), (shape[0], n_columns))  # takes no memory itself
        most = needed(of(factor), arrays, fan_in, there, whole.n_blocks) - there.taken
        return most + fan_in * known_need(of(factor), arrays).summary + bytes_of(factor)

    def fewest(share: float) -> int | None:
        room = min(share * there.limit - there.taken, math.inf if asked is None else asked)
        groups = (n for n in range(1, width + 1) if need(math.ceil(width / n)) <= room)
        return next(groups, None)

    possible, without_spilling = fewest(ENDS_AT), fewest(SPILLS_AT)
    if possible is None:
        raise MemoryError(_refusal(need(1), there, asked))
    # Where libraries and blocks alone nearly fill 70 %, what is left for columns would make passes without end.
    if without_spilling is None or without_spilling > MOST_TIMES * possible:
        return possible
    return without_spilling


def _refusal(need: int, there: There, asked: int | None) -> str:
    fit = fit_in_force()
    name = f"{fit.name if fit else 'the pass product'}, even with one column of its products in a pass,"
    if asked is not None and need > asked:
        least = f"with dspectral.memory-limit={math.ceil(need / 1e6)}MB it fits"
        return sentence(name, "this process", need, asked, 1.0, [least])
    whose, most = "a worker" if there.n_workers else "this process", need + there.taken
    ways = [workers_or_limit(most / ENDS_AT, by_threads=not there.n_workers)]
    return sentence(name, whose, most, there.limit, ENDS_AT, ways)
