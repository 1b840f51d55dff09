"""The protocol of every write: a plan first, blocks with marks, the root's metadata last.

Nothing that is finished is written again. Until the root is written a new store does not open, and one that is
being appended to opens as it was.
"""

from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import zarr
import zarr.errors

from dspectral.store.blocks import BlockInfo, Location, StoreError, read_array, write_array
from dspectral.store.counts import FORMAT, CountStore, open_store, read_head


class Draft(NamedTuple):
    """A store being built or appended to."""

    where: Location
    generation: int
    n_columns: int | None
    provenance: dict[str, Any]
    earlier: tuple[BlockInfo, ...]

    def name(self, *numbers: int) -> str:
        """Path of a block: names sort in the order of the rows."""
        return f"blocks/{self.generation:04d}-" + "-".join(f"{number:06d}" for number in numbers)


def begin(
    store: str,
    storage_options: dict[str, Any] | None,
    provenance: dict[str, Any],
    *,
    append: bool,
    n_columns: int | None = None,
) -> Draft:
    """Write the plan, or find the same plan half done."""
    where = Location(str(store), tuple(sorted((storage_options or {}).items())))
    head = read_head(where)
    if head is None and append:
        raise StoreError(f"no finished store at {store} to append to")
    if head is not None and not append:
        raise StoreError(f"there is a finished store at {store} already: append=True adds to it")
    generation = 0 if head is None else head["generation"] + 1
    if head is not None:
        _check_same_settings(store, head, provenance, n_columns)
    plan = {"format": FORMAT, **provenance}
    path = f"plans/{generation:04d}"
    try:
        found = zarr.open_group(where.open(), path=path, mode="r", zarr_format=3).attrs.asdict()
    except (FileNotFoundError, zarr.errors.GroupNotFoundError):
        zarr.create_group(where.open(read_only=False), path=path, attributes=plan)
    else:
        different = sorted(key for key in {*found, *plan} if plain(found.get(key)) != plain(plan.get(key)))
        if different:
            raise StoreError(
                f"an unfinished store of another plan is at {store} (its {', '.join(different)} differ): "
                "finish it with the same call, or remove it"
            )
    earlier = () if head is None else tuple(BlockInfo(*block) for block in head["blocks"])
    versions = {name: version(name) for name in ("dspectral", "numpy", "zarr")}
    return Draft(where, generation, n_columns, {**provenance, "versions": versions}, earlier)


def _check_same_settings(
    store: str, head: dict[str, Any], provenance: dict[str, Any], n_columns: int | None
) -> None:
    if n_columns is not None and n_columns != head["n_columns"]:
        raise StoreError(f"the rows to append have {n_columns} columns, but store {store} has {head['n_columns']}")
    for key in ("hashing", "vocabulary"):
        ours, theirs = plain(provenance.get(key)), plain(head["provenance"].get(key))
        if ours != theirs:
            raise StoreError(f"the {key} to append with is {ours}, but store {store} was built with {theirs}")


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def finish(draft: Draft, blocks: list[BlockInfo]) -> CountStore:
    """Add up the blocks' sums, in order, and write the root: from then on the store opens."""
    store = draft.where.open(read_only=False)
    assert draft.n_columns is not None
    every = [*draft.earlier, *(block for block in blocks if block.n_rows)]
    sums, frequency = np.zeros(draft.n_columns), np.zeros(draft.n_columns, dtype=np.int64)
    for block in every:
        sums += read_array(draft.where, store, block.name, "column_sums")
        frequency += read_array(draft.where, store, block.name, "document_frequency")
    totals = f"totals/{draft.generation:04d}"
    write_array(store, f"{totals}/column_sums", sums)
    write_array(store, f"{totals}/document_frequency", frequency)
    head = {
        "format": FORMAT,
        "generation": draft.generation,
        "n_columns": draft.n_columns,
        "blocks": [list(block) for block in every],
        "provenance": plain(draft.provenance),
    }
    root = zarr.open_group(store, mode="a", zarr_format=3)
    root.attrs.update({"dspectral": head})
    if "scratch" in root:
        del root["scratch"]
    return open_store(draft.where.url, storage_options=dict(draft.where.options))
