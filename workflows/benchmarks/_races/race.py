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

    `module`: what its process imports; `prepare`: from the module, the folder of the data and the settings to
    the function that is measured; `tell`: from what that function returns to arrays, for the score.
    """

    module: str
    prepare: Callable[[ModuleType, Path, Settings], Callable[[], Any]]
    tell: Callable[[Any], Found] = dict


class Race(NamedTuple):
    """Contenders who do the same.

    `task`: what all of them do, in a sentence; `sizes`: settings by the name of a size; `make`: from a folder
    and settings; `contenders`: by their names; `accuracy`: from the folder, the settings and what a contender
    found to numbers, by the names of their metrics.
    """

    task: str
    sizes: dict[str, dict[str, Any]]
    make: Callable[[Path, Settings], str]
    contenders: dict[str, Contender]
    accuracy: Callable[[Path, Settings, Found], dict[str, float]]
