"""Metadata of stores, corpora, coordinates and models, edited by a sender who knows how to seal them anew."""

import json
from pathlib import Path
from typing import Any

from dspectral.store.arrays import CONTENT_HASH, add_content_hash


def estimators_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the estimators of a model are."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    own = [at] if isinstance(value, dict) and value.get("kind") == "object" else []
    return [*own, *(path for key, one in pairs for path in estimators_of(one, (*at, key)))]


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return nested lists and dicts with another value at one place, all seals around it computed anew."""
    if not path:
        return new
    made = value.copy()
    made[path[0]] = new if len(path) == 1 else with_value(value[path[0]], path[1:], new)
    return (
        add_content_hash({key: one for key, one in made.items() if key != CONTENT_HASH})
        if CONTENT_HASH in value
        else made
    )


def edit(file: Path, path: tuple[Any, ...], new: Any) -> None:
    """Edit one value in a file of metadata; it is accepted as undamaged."""
    file.write_text(json.dumps(with_value(json.loads(file.read_text()), path, new)))
