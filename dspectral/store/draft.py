"""The protocol of every write: a plan first, blocks with marks, the root's metadata last; nothing is written twice.

Until the root is written a new store does not open, and one that is being appended to opens as it was.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from os import PathLike
from typing import Any, NamedTuple, Self

import dask
import dask.threaded
import numpy as np
from dask.system import CPU_COUNT

from dspectral.engine.around.context import dry_run_folder, is_dry_run
from dspectral.store.arrays import digest_of, read_array, sealed, write_array
from dspectral.store.blocks import BlockInfo
from dspectral.store.counts import CORPUS_KEY, FORMAT, KEY, TOTALS, CountStore, open_finished, totals_path
from dspectral.store.location import Location, StoreError, without_secrets
from dspectral.store.lock import locked, unlock
from dspectral.text.tokenizers import is_record, wrap_names
from dspectral.types import JSON

STAMPS = "stamps"
"""Group in the scratch of a store, and its attribute, that keeps the stamps of the files that it is built of."""


class Draft(NamedTuple):
    """A store being built or appended to.

    `generation, provenance`: of the store once this is finished; `earlier`: blocks of the store that is appended to;
    `resumed`: whether an earlier call with the same plan may have written some blocks already.
    """

    where: Location
    generation: int
    n_columns: int
    provenance: dict[str, Any]
    earlier: tuple[BlockInfo, ...]
    resumed: bool

    @property
    def scratch(self) -> str:
        """Path of the group that is removed once the store is finished."""
        return f"scratch/{self.generation:04d}"

    def name(self, *numbers: int) -> str:
        """Return the path of a block: paths sort in the order of the rows."""
        return f"blocks/{self.generation:04d}-" + "-".join(f"{number:06d}" for number in numbers)

    def forget(self) -> None:
        """Remove the plan and the scratch, where nothing was written yet that another call could go on with."""
        self.where.remove(self.scratch, f"plans/{self.generation:04d}")

    def for_tasks(self) -> Self:
        """Return the part of it that a task needs: the rest grows with the store, and would travel with every task."""
        return self._replace(provenance={}, earlier=())

    def afresh(self) -> Self:
        """Remove what an earlier call has written of the same plan."""
        path = f"plans/{self.generation:04d}"
        plan = self.where.attributes(path) or {}
        _remove_unfinished(self.where)
        self.where.mark(path, plan)
        return self._replace(resumed=False)


@contextmanager
def waiting_threads(*, always: bool = False) -> Iterator[dict[str, Any]]:
    """Give options of ``dask.compute`` under which tasks in threads have ended before an error leaves the context."""
    if not always and dask.base.get_scheduler() not in (None, dask.threaded.get):
        yield {}  # one thread, processes, or a cluster
        return
    with ThreadPoolExecutor(dask.config.get("num_workers", None) or CPU_COUNT) as pool:
        yield {"pool": pool, **({"scheduler": "threads"} if always else {})}


@contextmanager
def begin(
    store: str | PathLike[str],
    storage_options: dict[str, Any] | None,
    provenance: dict[str, Any],
    *,
    append: bool,
    n_columns: int | None = None,
    stamps: dict[str, str] | None = None,
) -> Iterator[Draft]:
    """Write the plan, or find the same plan half done; no other writer is at work while the context lasts."""
    if is_dry_run():
        store, storage_options, append = dry_run_folder(), None, False
    where = Location.of(store, storage_options)
    # Plan and root are read by everybody who reads the store: what opens its sources stays out of them.
    provenance = as_json(without_secrets(provenance))
    _check_target(where, append=append)  # nothing is written where nothing can be
    try:
        with locked(where):
            # Asked again: what was there may be what another writer was about to finish.
            finished = _check_target(where, append=append)
            draft = _create_or_resume(where, finished, provenance, n_columns, stamps)
            # Sizes alone do not say whether a text is still the one that an earlier call has read.
            if draft.resumed and any(stamp.startswith("size") for stamp in (stamps or {}).values()):
                draft = draft.afresh()
            yield draft
    except PermissionError as error:
        if not str(error.filename).startswith(where.url):
            raise
        raise StoreError(
            f"{error.filename} is not yours to write ({error.strerror}): a build at {where.url} that another user "
            "began is finished, or removed, by that user"
        ) from error


def _check_target(where: Location, *, append: bool) -> CountStore | None:
    """Return the finished store to append to; refuse a place where there is something else than what is needed."""
    finished, store = open_finished(where), where.url
    if finished is None and append:
        raise StoreError(f"no finished store at {store} to append to")
    if finished is not None and not append:
        raise StoreError(f"there is a finished store at {store} already: append=True adds to it")
    if finished is None:
        if CORPUS_KEY in (there := where.attributes(zarr_format=None) or {}):
            raise StoreError(f"there is a finished corpus at {store} already: open_corpus opens it")
        if there:
            raise StoreError(f"there is something else at {store}: choose another place, or remove it")
    return finished


@cache
def _get_versions() -> dict[str, str]:
    return {name: version(name) for name in ("dspectral", "numpy", "zarr")}


def _create_or_resume(
    where: Location,
    finished: CountStore | None,
    provenance: dict[str, Any],
    n_columns: int | None,
    stamps: dict[str, str] | None,
) -> Draft:
    # Versions are recorded but are no part of the plan: a newer version may finish what an older one began.
    made = {**provenance, "versions": _get_versions()}
    if finished is None:
        resumed = write_plan(where, 0, provenance, stamps)
        return Draft(where, 0, n_columns or 0, made, (), resumed)
    # An append is a plan of its own beside the finished root, which stays as it is until `finish`.
    check_same_settings(finished, provenance, n_columns)
    generation = finished.generation + 1
    resumed = write_plan(where, generation, provenance, stamps)
    history = {**finished.provenance, "appended": [*finished.provenance.get("appended", []), made]}
    return Draft(where, generation, finished.n_columns, history, finished.blocks, resumed)


def write_plan(
    where: Location, generation: int, provenance: dict[str, Any], stamps: dict[str, str] | None = None
) -> bool:
    """Write the plan, unless the same one is there."""
    path, plan = f"plans/{generation:04d}", as_json({"format": FORMAT, **provenance})
    found = where.attributes(path)
    if not found:  # no group, or one without attributes, whose writing was cut short
        if not generation and not {"blocks", "totals", "vocabulary"}.isdisjoint(where.names()):
            raise StoreError(f"there is something else at {where.url}: choose another place, or remove it")
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
    for key in ("hashing", "vocabulary", "labels", "weighting", "id_field", "keep_texts"):
        ours, theirs = as_json(provenance.get(key)), as_json(store.provenance.get(key))
        if ours != theirs:
            ours, theirs = _describe_difference(ours, theirs)
            raise StoreError(f"the {key} to append with is {ours}, but store {url} was built with {theirs}")
    if n_columns is not None and n_columns != store.n_columns:
        raise StoreError(
            f"the rows to append have {n_columns} columns, but store {url} has {store.n_columns}"
        )


def changed_text(where: Location, urls: Sequence[str]) -> StoreError:
    """Return the error that names files whose text is no longer the one that a build began with."""
    named = ", ".join(map(without_secrets, urls[:3])) + (
        f" and {len(urls) - 3} more" if len(urls) > 3 else ""
    )
    return StoreError(
        f"{named} changed since the build at {where.url} began: remove what it has written with "
        "dspectral.store.discard_unfinished, and call again"
    )


def as_json(value: "JSON | tuple[Any, ...]") -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {
            key: entry["name"] if key in ("tokenizer", "tokens") and is_record(entry) else as_json(entry)
            for key, entry in value.items()
        }
    return [as_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def _describe_difference(ours: JSON, theirs: JSON) -> tuple[Any, Any]:
    """Return the differing fields of two settings as text; where one side has none, both as they are."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return ours, theirs
    names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
    mine, other = (", ".join(f"{name} = {of.get(name)!r}" for name in names) for of in (ours, theirs))
    return mine, other


def finish(draft: Draft, blocks: list[BlockInfo]) -> CountStore:
    """Add up the blocks' sums, in order, and write the root: from then on the store opens."""
    store = draft.where.open(read_only=False)
    new = [block for block in blocks if block.n_rows]
    # In the order of the rows, one block at a time: the sums of float64 have the same bits whoever wrote the blocks.
    digests = []
    for part, dtype in zip(TOTALS, (np.float64, np.int64), strict=True):
        total = np.zeros(draft.n_columns, dtype=dtype)
        if draft.earlier:
            total += read_array(draft.where, store, totals_path(draft.generation - 1), part)
        for block in new:
            total += read_array(draft.where, store, block.name, part)
        write_array(store, f"{totals_path(draft.generation)}/{part}", total)
        digests.append(digest_of(total))
    every = (*draft.earlier, *new)
    head = {
        "format": FORMAT,
        "generation": draft.generation,
        "n_columns": draft.n_columns,
        "blocks": [block.as_list() for block in every],
        "provenance": as_json(draft.provenance),
        "totals": digests,
    }
    # This one write makes the store a finished one; what is left behind if scratch stays is only space.
    draft.where.mark("", {KEY: sealed(head)})
    draft.where.clear("scratch")
    sums = digests[0], digests[1]
    origin = wrap_names(head["provenance"])
    return CountStore(draft.where, every, draft.n_columns, draft.generation, origin, sums)


def discard_unfinished(
    store: str | PathLike[str], *, storage_options: dict[str, Any] | None = None, force: bool = False
) -> None:
    """Remove what an unfinished build or append has written; a finished store is as it was before the append.

    Parameters
    ----------
    store : str or path-like
        Local path or fsspec URL of the store or corpus.
    storage_options : dict, optional
        Options of its file system.
    force : bool, default=False
        Whether a writer that seems to be at work in a bucket is known to be dead: nothing there ends with its process.

    Raises
    ------
    StoreError
        If a writer is at work.

    Notes
    -----
    Its tasks on a cluster must have ended: blocks that they finish later would be taken for those of the next build.

    Examples
    --------
    >>> from dspectral import write_counts
    >>> store = write_counts(np.eye(2), "memory://kept")
    >>> discard_unfinished("memory://kept")
    >>> store.counts.compute().toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    where = Location.of(store, storage_options)
    if force:
        unlock(where)
    if _is_unfinished(where):
        with locked(where):
            _remove_unfinished(where)


def _get_next_generation(where: Location) -> tuple[str, bool]:
    """Return the generation that is written next, and whether it is the first."""
    finished = open_finished(where)
    return f"{0 if finished is None else finished.generation + 1:04d}", finished is None


def _is_unfinished(where: Location) -> bool:
    generation, _ = _get_next_generation(where)
    # Without a plan nothing of this generation was written, and a corpus counts as finished by a key of its own.
    return where.attributes(f"plans/{generation}") is not None and CORPUS_KEY not in (
        where.attributes() or {}
    )


def _remove_unfinished(where: Location) -> None:
    if not _is_unfinished(where):
        return
    generation, is_first = _get_next_generation(where)
    written = ["vocabulary", "blocks", "totals"]  # of a first build, all that is there
    if not is_first:
        names = (name for name in where.names("blocks") if name.startswith(f"{generation}-"))
        written = [*(f"blocks/{name}" for name in names), f"totals/{generation}"]
    # The plan goes last: cut short, this call can be made again.
    where.remove(*written, "scratch", f"plans/{generation}")
