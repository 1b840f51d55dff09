"""Fits, builds and passes tell what they do while they run: these are their events, for whoever listens.

An event is a named tuple of plain values. It goes

- to every listener of the thread in which it happens (:func:`~dspectral.engine.telling.listening`), and to the
  listeners of all threads;
- to Python's ``logging``, under the logger ``dspectral``: INFO for fits, passes, certificates and compilation, DEBUG
  for blocks and merges. Nothing is printed unless the program configures logging;
- while the computation has a ``dask.distributed`` client, to the event log of its scheduler, under the topic
  ``"dspectral"``: only if somebody listens, or ``dspectral.dashboard`` is true in Dask's configuration.

A fit tells, in this order: :class:`FitBegan`; for each pass :class:`PassBegan`, any number of :class:`BlocksDone`,
:class:`Merged` and :class:`Redone`, and :class:`PassEnded`; then :class:`Certified` if it has a certificate; and
:class:`FitEnded`, also after an error. :class:`Compiling`, :class:`Compiled`, :class:`Retried` and :class:`Waiting`
may stand anywhere between them.

Messages in the scheduler's log are what :func:`~dspectral.engine.telling.as_message` makes: a dict with the fields of
the event, its kind under ``"event"`` (the name of the class), seconds since 1970 under ``"time"``, ``"sender"`` (host
and process), and ``"order"``, which counts the messages of one sender: they are sent without waiting, so sort by it
where order matters. What comes from a worker has its address under ``"worker"``. Blocks are not in the log, since the
scheduler itself knows its tasks: those of a pass are in the task groups whose names :class:`PassBegan` holds.
:class:`Merged` comes from workers, and so do :class:`Compiling` and :class:`Compiled` where they compile.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from dspectral.engine.fault_events import Retried, Waiting

TOPIC = "dspectral"
"""Topic of the messages in the event log of a scheduler."""


class FitBegan(NamedTuple):
    """A fit or a build begins.

    `fit`: token that all events of this fit have; `name`: class of the estimator, or name of the function,
    such as ``"build_store"``; `parent`: token of the fit that called this one, as ``IntentClassifier`` fits a
    representation; `n_passes`: number of passes over the data, where it is known already.
    """

    fit: str
    name: str
    parent: str
    n_passes: int | None


class PassBegan(NamedTuple):
    """A pass over blocks begins.

    `fit`: token of the fit; `of`: name of that fit, or ``""``; `run`: token of the pass, which its other
    events have; `name`: name of the pass, such as ``"sketch"``; `number`: this is pass ``number`` (from 1) of
    the fit; `n_passes`: number of passes of the fit, where the estimator knows it; `n_blocks`: number of
    blocks; `n_merges`: number of tasks that merge summaries; `n_levels`: depth of the tree of merges;
    `fan_in`: number of summaries that a merge takes; `n_rows`: number of rows of all blocks, where it is
    known beforehand; `n_bytes`: bytes of all blocks once they are read, where it is known beforehand;
    `block_group`: name of the task group of the blocks, as Dask's scheduler has it; `merge_groups`: names of
    the task groups of the merges, one for each level from the blocks up; `n_kept, n_kept_merges`: blocks and
    merges, of those above, that need not run; `n_joined`: number of blocks of the data, where each task reads
    several small ones.
    """

    fit: str
    of: str
    run: str
    name: str
    number: int | None
    n_passes: int | None
    n_blocks: int
    n_merges: int
    n_levels: int
    fan_in: int
    n_rows: int | None
    n_bytes: int | None
    block_group: str
    merge_groups: tuple[str, ...]
    n_kept: int = 0
    n_kept_merges: int = 0
    n_joined: int = 0


class BlocksDone(NamedTuple):
    """More tasks of a pass are done.

    `fit, run`: tokens of fit and pass; `n_blocks`: blocks that are done; `n_merges`: merges that are done.
    """

    fit: str
    run: str
    n_blocks: int
    n_merges: int


class Merged(NamedTuple):
    """A merge of summaries is done; it tells how large summaries are, and how good.

    `fit, run`: tokens of fit and pass; `level`: level in the tree, 1 for merges of the summaries of blocks;
    `summary_bytes`: bytes of the merged summary; `n_rows`: number of rows that are summarized, where the
    summary knows it; `absolute, relative`: bound on the error of this summary alone, as :class:`Certified`
    has it, where the summary knows it.
    """

    fit: str
    run: str
    level: int
    summary_bytes: int
    n_rows: int | None
    absolute: float | None
    relative: float | None


class Redone(NamedTuple):
    """Results were lost, for instance with a worker, and are computed once more.

    `fit, run`: tokens of fit and pass; `n_tasks`: number of tasks that were done before and must run again
    now; `lost_workers`: number of workers that left the cluster since the pass began.
    """

    fit: str
    run: str
    n_tasks: int
    lost_workers: int


class PassEnded(NamedTuple):
    """A pass is over.

    `fit, run`: tokens of fit and pass; `name`: name of the pass; `seconds`: wall time from the graph to the
    merged summary; `error`: name of the exception that ended it.
    """

    fit: str
    run: str
    name: str
    seconds: float
    error: str


class Certified(NamedTuple):
    """The certificate of a fit is known.

    `fit`: token of the fit; `name`: name of the fit; `absolute`: bound on the spectral norm of ``A'A - B'B``
    for the rows A and their approximation B; `relative`: bound divided by the squared Frobenius norm of A.
    """

    fit: str
    name: str
    absolute: float
    relative: float


class FitEnded(NamedTuple):
    """A fit or a build is over.

    `fit`: token of the fit; `name`: name of the fit; `n_passes`: number of passes that were made; `seconds`:
    wall time; `error`: name of the exception that ended it.
    """

    fit: str
    name: str
    n_passes: int
    seconds: float
    error: str


class Compiling(NamedTuple):
    """Numba begins to compile a loop, for which no machine code was on disk.

    `loop`: name of the function; `module`: module in which it is.
    """

    loop: str
    module: str


class Compiled(NamedTuple):
    """A loop is compiled, with all that it calls.

    `loop`: name of the function; `module`: module in which it is; `seconds`: wall time that it took.
    """

    loop: str
    module: str
    seconds: float


Event: TypeAlias = (
    FitBegan
    | PassBegan
    | BlocksDone
    | Merged
    | Redone
    | PassEnded
    | Certified
    | FitEnded
    | Compiling
    | Compiled
    | Retried
    | Waiting
)
Listener: TypeAlias = Callable[[Event], object]
