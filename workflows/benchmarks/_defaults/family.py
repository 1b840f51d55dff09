"""What a family of methods says of itself, so that its defaults can be held against tuned settings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..._form import form


class Found(NamedTuple):
    """One way to set a method up, or a peer, on one data set.

    Attributes
    ----------
    method : str
        ``"default"``, ``"tuned"``, ``"as published"``, or the name of a peer.
    settings : str
        What was chosen, as a person reads it; empty where there was nothing to choose.
    cpu_seconds : float
        Of the last fit; for ``"default"`` with all that it chooses.
    scores : dict of str to float
        Scores of the test side by their names; larger is better.
    """

    method: str
    settings: str
    cpu_seconds: float
    scores: dict[str, float]


class Family(NamedTuple):
    """A family of methods.

    Attributes
    ----------
    sets : tuple of str
        Names of all data sets, which say on which of them defaults were designed.
    found : callable
        ``found(run, data, name, scratch)`` yields a :class:`Found` for each way, ``"default"`` and ``"tuned"`` among
        them, with the folders of all data sets and for files of its own.
    """

    sets: tuple[str, ...]
    found: Callable[[form.Run, Path, str, str], Iterator[Found]]
