"""What a family of methods says of itself, so that its defaults can be held against tuned settings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..._form import form


class Found(NamedTuple):
    """One way to set a method up, or a peer, on one data set.

    `method`: ``"default"``, ``"tuned"``, ``"as published"``, or the name of a peer; `settings`: what was
    chosen, as a person reads it; `cpu_seconds`: of the last fit; `scores`: scores of the test side by their
    names.
    """

    method: str
    settings: str
    cpu_seconds: float
    scores: dict[str, float]


class Family(NamedTuple):
    """A family of methods.

    `sets`: names of all data sets, which say on which of them defaults were designed; `found`: ``found(run,
    data, name, scratch)`` yields a :class:`Found` for each way, ``"default"`` and ``"tuned"`` among them,
    with the folders of all data sets and for files of its own.
    """

    sets: tuple[str, ...]
    found: Callable[[form.Run, Path, str, str], Iterator[Found]]
