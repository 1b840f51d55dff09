"""The protocol of every write: a plan first, blocks with marks, the root's metadata last.

Nothing that is finished is written again. Until the root is written a new store does not open, and one that
is being appended to opens as it was.
"""

from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import zarr

from dspectral.store.blocks import BlockInfo, Location, StoreError, read_array, write_array
from dspectral.store.counts import CORPUS_KEY, FORMAT, KEY, CountStore, location, open_finished, totals_path


class Draft(NamedTuple):
    """A store being built or appended to.

    Attributes
    ----------
    where : Location
    generation : int
        0, or how often rows have been appended when this is finished.
    n_columns : int
        0 while a vocabulary is not known yet.
    provenance : dict
        Of the whole store, once this is finished.
    earlier : tuple of BlockInfo
        Blocks of the store that is being appended to.
    resumed : bool
        Whether some of it may be written already.
    """

    where: Location
    generation: int
    n_columns: int
    provenance: dict[str, Any]
    earlier: tuple[BlockInfo, ...]
    resumed: bool

    @property
    def scratch(self) -> str:
        """Path of what is removed once the store is finished."""
        return f"scratch/{self.generation:04d}"

    def name(self, *numbers: int) -> str:
        """Path of a block: names sort in the order of the rows."""
        return f"blocks/{self.generation:04d}-" + "-".join(f"{number:06d}" for number in numbers)

    def for_tasks(self) -> "Draft":
        """Return what a task needs: the rest grows with the store, and would travel with every task."""
        return self._replace(provenance={}, earlier=())


def begin(
    store: str,
    storage_options: dict[str, Any] | None,
    provenance: dict[str, Any],
    *,
    append: bool,
    n_columns: int | None = None,
) -> Draft:
    """Write the plan, or find the same plan half done.

    Raises
    ------
    StoreError
        If the store is finished, or there is none to append to, or it has other columns, or another plan is
        half done, or something else is there.
    """
    where = location(store, storage_options)
    finished = open_finished(where)
    if finished is None and append:
        raise StoreError(f"no finished store at {store} to append to")
    if finished is not None and not append:
        raise StoreError(f"there is a finished store at {store} already: append=True adds to it")
    versions = {name: version(name) for name in ("dspectral", "numpy", "zarr")}
    made = {**provenance, "versions": versions}
    if finished is None:
        if CORPUS_KEY in (there := where.attributes(zarr_format=None) or {}):
            raise StoreError(f"there is a finished corpus at {store} already: open_corpus opens it")
        if there:
            raise StoreError(f"there is something else at {store}: choose another place, or remove it")
        resumed = _plan(where, 0, provenance)
        return Draft(where, 0, n_columns or 0, made, (), resumed)
    _check_same_settings(finished, provenance, n_columns)
    generation = finished.generation + 1
    resumed = _plan(where, generation, provenance)
    history = {**finished.provenance, "appended": [*finished.provenance.get("appended", []), made]}
    return Draft(where, generation, finished.n_columns, history, finished.blocks, resumed)


def finish(draft: Draft, blocks: list[BlockInfo]) -> CountStore:
    """Add up the blocks' sums, in order, and write the root: from then on the store opens."""
    store = draft.where.open(read_only=False)
    new = [block for block in blocks if block.n_rows]
    for part, dtype in (("column_sums", np.float64), ("document_frequency", np.int64)):
        total = np.zeros(draft.n_columns, dtype=dtype)
        if draft.earlier:
            total += read_array(draft.where, store, totals_path(draft.generation - 1), part)
        for block in new:
            total += read_array(draft.where, store, block.name, part)
        write_array(store, f"{totals_path(draft.generation)}/{part}", total)
    every = (*draft.earlier, *new)
    head = {
        "format": FORMAT,
        "generation": draft.generation,
        "n_columns": draft.n_columns,
        "blocks": [list(block) for block in every],
        "provenance": _as_json(draft.provenance),
    }
    draft.where.mark("", {KEY: head})
    root = zarr.open_group(store, mode="a", zarr_format=3)
    if "scratch" in root:
        del root["scratch"]
    return CountStore(draft.where, every, draft.n_columns, draft.generation, head["provenance"])


def discard_unfinished(store: str, *, storage_options: dict[str, Any] | None = None) -> None:
    """Remove what an unfinished build or append has written; a finished store is as it was before the append.

    Parameters
    ----------
    store : str
        Local path or fsspec URL.
    storage_options : dict, optional

    Examples
    --------
    >>> from dspectral.store.matrix import write_counts
    >>> store = write_counts(np.eye(2), "memory://kept")
    >>> discard_unfinished("memory://kept")
    >>> store.counts.compute().toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    where = location(store, storage_options)
    finished = open_finished(where)
    generation = f"{0 if finished is None else finished.generation + 1:04d}"
    if where.attributes(f"plans/{generation}") is None or CORPUS_KEY in (where.attributes() or {}):
        return
    root = zarr.open_group(where.open(read_only=False), mode="a", zarr_format=3)
    if finished is None and "vocabulary" in root:
        del root["vocabulary"]
    if "blocks" in root:
        blocks = zarr.open_group(root.store, path="blocks", mode="a", zarr_format=3)
        for name in [name for name in blocks if name.startswith(f"{generation}-")]:
            del blocks[name]
    for path in ("scratch", f"totals/{generation}", f"plans/{generation}"):  # the plan last
        if path in root:
            del root[path]


def _plan(where: Location, generation: int, provenance: dict[str, Any]) -> bool:
    """Write the plan; return whether it was there already."""
    path, plan = f"plans/{generation:04d}", _as_json({"format": FORMAT, **provenance})
    found = where.attributes(path)
    if not found:
        where.mark(path, plan)
        return False
    different = sorted(key for key in {*found, *plan} if found.get(key) != plan.get(key))
    if different:
        raise StoreError(
            f"an unfinished write of another plan is at {where.url} (its {', '.join(different)} differ): "
            "finish it with the same call, or remove it with dspectral.store.draft.discard_unfinished"
        )
    return True


def _check_same_settings(store: CountStore, provenance: dict[str, Any], n_columns: int | None) -> None:
    url = store.where.url
    for key in ("hashing", "vocabulary", "labels", "weighting"):
        ours, theirs = _as_json(provenance.get(key)), store.provenance.get(key)
        if ours != theirs:
            raise StoreError(f"the {key} to append with is {ours}, but store {url} was built with {theirs}")
    if n_columns is not None and n_columns != store.n_columns:
        raise StoreError(
            f"the rows to append have {n_columns} columns, but store {url} has {store.n_columns}"
        )


def _as_json(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, dict):
        return {key: _as_json(entry) for key, entry in value.items()}
    return [_as_json(entry) for entry in value] if isinstance(value, list | tuple) else value
