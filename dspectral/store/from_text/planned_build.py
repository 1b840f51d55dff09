"""Samples of a build: a few pieces of the text, written to a folder that is removed."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dspectral.engine.planning.asking import SIZES
from dspectral.engine.planning.samples import Cut, chosen
from dspectral.engine.planning.scales import Scale
from dspectral.store.from_text.planned_text import PlannedText, Reading
from dspectral.store.planned_build import Sampled, in_a_folder

MOST_BYTES = 256 << 20
"""Most bytes of a piece of text that cannot be cut, since a probe reads several."""


def text_samples(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    *,
    planned: Callable[[Any, Reading], PlannedText],
) -> Sampled:
    """Return builds of a few spans of text."""
    given = inspect.signature(function).bind(*arguments, **keywords)
    given.apply_defaults()
    values = dict(given.arguments)
    names = ("unit", "field", "encoding", "delimiter", "block_bytes", "errors", "source_options")
    text = planned(values.pop("sources"), Reading(*(values[name] for name in names)))
    if text.texts is not None:
        raise ValueError("the sources are texts in memory, which are read once: only files can be planned")
    sizes = [float(span.n_bytes or 1) for span in text.spans]
    if max(sizes) > MOST_BYTES:
        large = text.spans[sizes.index(max(sizes))]
        raise ValueError(
            f"{large.url} has {max(sizes):.0f} bytes and cannot be cut, so that a probe would read all of it: plan "
            "for a part of it, or for files that are not compressed"
        )
    cut = Cut((1,) * len(sizes), tuple(sizes), False, int(sum(sizes)))
    del values["store"]
    values |= {"append": False} if "append" in values else {}
    values |= {"storage_options": None}
    return _samples(
        function, cut, lambda numbers: text._replace(spans=[text.spans[i] for i in numbers]), values
    )


def _samples(
    function: Callable[..., Any], cut: Cut, part: Callable[[list[int]], Any], keywords: Mapping[str, Any]
) -> Sampled:
    n = len(cut.rows)
    sizes = sorted({min(size, n) for size in SIZES})
    numbers = [chosen(cut, size) for size in sizes]
    calls = [(in_a_folder, (function, part(some)), dict(keywords)) for some in numbers]
    weights = tuple(sum(cut.weights[i] for i in some) / sum(cut.weights) for some in numbers)
    return calls, Scale(n, tuple(sizes), weights), cut
