"""Samples of a build: a few pieces of the matrix, written to a folder that is removed."""

import inspect
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from dspectral.engine.planning.asking import calls_of
from dspectral.engine.planning.samples import Cut
from dspectral.engine.planning.scales import Scale

Sampled = tuple[list[tuple[Any, ...]], Scale, Cut]


def matrix_samples(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Sampled:
    """Return builds of a few blocks of a matrix."""
    given = inspect.signature(function).bind(*arguments, **keywords)
    X = given.arguments.pop("X")
    given.arguments.pop("store")
    more = {**given.arguments, "storage_options": None, "append": False}
    calls, scale, cut = calls_of(function, (X,), more)
    return [(in_a_folder, (of, *rest), kept) for of, rest, kept in calls], scale, cut


def in_a_folder(function: Callable[..., Any], source: Any, **keywords: Any) -> None:
    """Build into a folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="dspectral-plan-") as folder:
        function(source, f"{folder}/sample.zarr", **keywords)
