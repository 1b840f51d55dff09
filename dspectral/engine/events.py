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

    Attributes
    ----------
    fit : str
        Token that all events of this fit have.
    name : str
        Class of the estimator, or name of the function, such as ``"build_store"``.
    parent : str
        Token of the fit that called this one, as ``IntentClassifier`` fits a representation; ``""`` for none.
    n_passes : int or None
        Number of passes over the data, where it is known already.
    """

    fit: str
    name: str
    parent: str
    n_passes: int | None


class PassBegan(NamedTuple):
    """A pass over blocks begins.

    Attributes
    ----------
    fit : str
        Token of the fit; ``""`` for a pass outside any fit, such as a call of :func:`dspectral.engine.summarize`.
    of : str
        Name of that fit, or ``""``.
    run : str
        Token of the pass, which its other events have.
    name : str
        Name of the pass, such as ``"sketch"``.
    number : int or None
        This is pass ``number`` (from 1) of the fit; None for a step that does not read the data, such as a merge of
        files, and outside any fit.
    n_passes : int or None
        Number of passes of the fit, where the estimator knows it; it may be more than will be needed, since some
        fits stop early, but never less.
    n_blocks : int
        Number of blocks: tasks that read, summarize or work.
    n_merges : int
        Number of tasks that merge summaries.
    n_levels : int
        Depth of the tree of merges; 0 where nothing is merged.
    fan_in : int
        Number of summaries that a merge takes; 0 where nothing is merged.
    n_rows : int or None
        Number of rows of all blocks, where it is known beforehand.
    n_bytes : int or None
        Bytes of all blocks once they are read, where it is known beforehand.
    block_group : str
        Name of the task group of the blocks, as Dask's scheduler has it.
    merge_groups : tuple of str
        Names of the task groups of the merges, one for each level from the blocks up.
    n_kept, n_kept_merges : int, default=0
        Blocks and merges, of those above, that need not run: their summaries were found where :func:`dspectral.keep`
        left them.
    n_joined : int, default=0
        Number of blocks of the data, where each task reads several small ones; else 0.
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

    Attributes
    ----------
    fit, run : str
        Tokens of fit and pass.
    n_blocks : int
        Blocks that are done: it never falls.
    n_merges : int
        Merges that are done: it never falls.
    """

    fit: str
    run: str
    n_blocks: int
    n_merges: int


class Merged(NamedTuple):
    """A merge of summaries is done; it tells how large summaries are, and how good.

    Attributes
    ----------
    fit, run : str
        Tokens of fit and pass.
    level : int
        Level in the tree, 1 for merges of the summaries of blocks.
    summary_bytes : int
        Bytes of the merged summary: with :class:`PassBegan` this is what :func:`dspectral.projected_memory` takes.
    n_rows : int or None
        Number of rows that are summarized, where the summary knows it.
    absolute, relative : float or None
        Bound on the error of this summary alone, as :class:`Certified` has it, where the summary knows it.
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

    Attributes
    ----------
    fit, run : str
        Tokens of fit and pass.
    n_tasks : int
        Number of tasks that were done before and must run again now.
    lost_workers : int
        Number of workers that left the cluster since the pass began.
    """

    fit: str
    run: str
    n_tasks: int
    lost_workers: int


class PassEnded(NamedTuple):
    """A pass is over.

    Attributes
    ----------
    fit, run : str
        Tokens of fit and pass.
    name : str
        Name of the pass.
    seconds : float
        Wall time from the graph to the merged summary.
    error : str
        Name of the exception that ended it; ``""`` for none.
    """

    fit: str
    run: str
    name: str
    seconds: float
    error: str


class Certified(NamedTuple):
    """The certificate of a fit is known.

    Attributes
    ----------
    fit : str
        Token of the fit.
    name : str
        Name of the fit.
    absolute : float
        Bound on the spectral norm of ``A'A - B'B`` for the rows A and their approximation B.
    relative : float
        Bound divided by the squared Frobenius norm of A.
    """

    fit: str
    name: str
    absolute: float
    relative: float


class FitEnded(NamedTuple):
    """A fit or a build is over.

    Attributes
    ----------
    fit : str
        Token of the fit.
    name : str
        Name of the fit.
    n_passes : int
        Number of passes that were made.
    seconds : float
        Wall time.
    error : str
        Name of the exception that ended it; ``""`` for none.
    """

    fit: str
    name: str
    n_passes: int
    seconds: float
    error: str


class Compiling(NamedTuple):
    """Numba begins to compile a loop, for which no machine code was on disk.

    Attributes
    ----------
    loop : str
        Name of the function.
    module : str
        Module in which it is.
    """

    loop: str
    module: str


class Compiled(NamedTuple):
    """A loop is compiled, with all that it calls.

    Attributes
    ----------
    loop : str
        Name of the function.
    module : str
        Module in which it is.
    seconds : float
        Wall time that it took.
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
