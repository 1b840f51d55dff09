"""What a race is: data on disk, contenders that do the same with it, and how well each did."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Settings = Mapping[str, Any]
Found = dict[str, np.ndarray]
"""What a contender found, in arrays by their names."""


class Contender(NamedTuple):
    """One way to do what a race asks for.

    Attributes
    ----------
    module : str
        What its process imports: the library that it is made of. Nothing else of weight is imported there.
    prepare : callable
        From the module, the folder of the data and the settings to the function that is measured: it holds what it
        needs from the start, in memory where it cannot work from disk.
    tell : callable
        From what that function returns to arrays, for the score; not measured.
    """

    module: str
    prepare: Callable[[ModuleType, Path, Settings], Callable[[], Any]]
    tell: Callable[[Any], Found] = dict


class Race(NamedTuple):
    """Contenders who do the same.

    Attributes
    ----------
    task : str
        What all of them do, in a sentence.
    sizes : dict
        Settings by the name of a size: ``toy``, on which every contender practices, ``small``, ``middle`` and ``full``.
    make : callable
        From a folder and settings: writes the data, and says in a few words what it is.
    contenders : dict
        By their names. Ratios are over the first, which is ours.
    accuracy : callable
        From the folder, the settings and what a contender found to numbers, by the names of their metrics.
    """

    task: str
    sizes: dict[str, dict[str, Any]]
    make: Callable[[Path, Settings], str]
    contenders: dict[str, Contender]
    accuracy: Callable[[Path, Settings, Found], dict[str, float]]
