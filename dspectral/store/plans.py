"""The plan of a build: what a call must have in common with an earlier one to go on with its work."""

from collections.abc import Sequence
from typing import Any

from dspectral.store.arrays import Location, StoreError
from dspectral.store.counts import FORMAT, CountStore
from dspectral.types import JSON

STAMPS = "stamps"
"""Group in the scratch of a store, and its attribute, that keeps the stamps of the files that it is built of."""


def write_plan(
    where: Location, generation: int, provenance: dict[str, Any], stamps: dict[str, str] | None = None
) -> bool:
    """Write the plan, unless the same one is there."""
    path, plan = f"plans/{generation:04d}", as_json({"format": FORMAT, **provenance})
    found = where.attributes(path)
    if not found:  # no group, or one without attributes, whose writing was cut short
        if stamps:
            where.mark(f"scratch/{generation:04d}/{STAMPS}", {STAMPS: stamps})
        where.mark(path, plan)
        return False
    known = (where.attributes(f"scratch/{generation:04d}/{STAMPS}") or {}).get(STAMPS, {}) if stamps else {}
    # Either side may have fields that the other lacks, as those of a later version do.
    different = sorted(key for key in {*found, *plan} if found.get(key) != plan.get(key))
    changed = [url for url, stamp in (stamps or {}).items() if known.get(url, stamp) != stamp]
    if changed and different in ([], ["sources"]):  # files that grew are cut otherwise
        raise changed_text(where, changed)
    if different:
        verb = "differs" if len(different) == 1 else "differ"
        raise StoreError(
            f"an unfinished write of another plan is at {where.url} (its {', '.join(different)} {verb}): "
            "finish it with the same call, or remove it with dspectral.store.discard_unfinished"
        )
    return True


def check_same_settings(store: CountStore, provenance: dict[str, Any], n_columns: int | None) -> None:
    """Refuse rows that were made otherwise than those of a store."""
    url = store.where.url
    for key in ("hashing", "vocabulary", "labels", "weighting"):
        ours, theirs = as_json(provenance.get(key)), store.provenance.get(key)
        if ours != theirs:
            ours, theirs = _what_differs(ours, theirs)
            raise StoreError(f"the {key} to append with is {ours}, but store {url} was built with {theirs}")
    if n_columns is not None and n_columns != store.n_columns:
        raise StoreError(
            f"the rows to append have {n_columns} columns, but store {url} has {store.n_columns}"
        )


def changed_text(where: Location, urls: Sequence[str]) -> StoreError:
    """Return the error that names files whose text is no longer the one that a build began with."""
    named = ", ".join(urls[:3]) + (f" and {len(urls) - 3} more" if len(urls) > 3 else "")
    return StoreError(
        f"{named} changed since the build at {where.url} began: remove what it has written with "
        "dspectral.store.discard_unfinished, and call again"
    )


def as_json(value: "JSON | tuple[Any, ...]") -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, dict):
        return {key: as_json(entry) for key, entry in value.items()}
    return [as_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def _what_differs(ours: JSON, theirs: JSON) -> tuple[Any, Any]:
    """Return the differing fields of two settings as text; where one side has none, both as they are."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return ours, theirs
    names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
    mine, other = (", ".join(f"{name} = {of.get(name)!r}" for name in names) for of in (ours, theirs))
    return mine, other
