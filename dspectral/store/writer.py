"""Protocol of every write: first a manifest, then blocks with completion markers, finally the root metadata.

Until the root is written, a new store does not open, and an existing store opens without the appended rows.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from os import PathLike
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from dspectral.engine.around.context import dry_run_folder, is_dry_run
from dspectral.store.arrays import add_content_hash, compute_digest, read_array, write_array
from dspectral.store.blocks import BlockInfo
from dspectral.store.corpus import Corpus, find_corpus
from dspectral.store.counts import FIRST, FORMAT, KEY, TOTALS, CountStore, get_totals_path, open_finished
from dspectral.store.location import METADATA, Location, StoreError, redact_urls
from dspectral.store.lock import hold_write_lock, unlock
from dspectral.store.vocabulary import get_vocabulary_path
from dspectral.text.tokenizers import is_record
from dspectral.types import JSON

CONTENT = "content"
"""Key of the manifest with a hash of the rows or of the fingerprints of the files."""

COUNTS = "long"
"""Temporary group with the read counts of each part of the text."""

SETTINGS = ("hashing", "vocabulary", "labels", "weighting", "id_field", "keep_texts")
"""Keys of the manifest that an append must share with the store."""


class StoreWriter(NamedTuple):
    """A store that is being built or appended to.

    `generation, provenance`: values of the finished store; `existing_blocks`: blocks before the append;
    `resumed`: whether an interrupted call with the same manifest may have written some blocks; `finished`: the store or
    corpus that is already there, built with the same manifest.
    """

    location: Location
    generation: int
    n_columns: int
    provenance: dict[str, Any]
    existing_blocks: tuple[BlockInfo, ...]
    resumed: bool
    finished: Any = None

    @property
    def scratch(self) -> str:
        """Path of the group of temporary data, removed when the store is finished."""
        return f"scratch/{self.generation:04d}"

    @property
    def vocabulary(self) -> str:
        """Path of the vocabulary."""
        return get_vocabulary_path(self.provenance.get(FIRST, 0))

    def name(self, *numbers: int) -> str:
        """Return the path of a block; paths sort in the order of the rows."""
        return f"blocks/{self.generation:04d}-" + "-".join(f"{number:06d}" for number in numbers)

    def drop_history(self) -> Self:
        """Return a copy for tasks, without the fields that grow with the store."""
        return self._replace(provenance={}, existing_blocks=(), finished=None)

    def match_content(self, content: str) -> Self:
        """Return the writer of a content: blocks of other content are removed; raise if other content is finished."""
        plan = get_plan_path(self.generation)
        stored = (self.location.read_attributes(plan) or {}).get(CONTENT)
        if self.finished is not None:
            if stored != content:
                raise _finished_error(self.finished, [CONTENT])
            note = "has this content already and was opened: overwrite=True builds it again"
            warnings.warn(f"the {_get_kind(self.finished)} at {self.location.url} {note}", stacklevel=2)
        if stored == content:
            return self
        if stored is not None:  # texts in memory are saved before their content is known
            names = {f"{self.scratch}/{name}" for name in self.location.list_names(self.scratch)}
            paths = {*_list_unfinished(self.location), *names}
            kept = {"scratch", plan, *(f"{self.scratch}/{name}" for name in ("texts", COUNTS, METADATA))}
            self.location.remove(*sorted(paths - kept))
        self.location.write_attributes(plan, {CONTENT: content})
        return self._replace(resumed=False)


@contextmanager
def open_writer(
    store: str | PathLike[str],
    storage_options: dict[str, Any] | None,
    provenance: dict[str, Any],
    *,
    append: bool = False,
    overwrite: bool = False,
    n_columns: int | None = None,
    content: str | None = None,
    reuse: bool = True,
) -> Iterator[StoreWriter]:
    """Lock a store and yield its writer, which resumes an interrupted write with the same manifest and content.

    `reuse`: whether a finished store with the same manifest and content is opened; otherwise StoreError is raised.
    """
    if append and overwrite:
        raise ValueError("append=True and overwrite=True exclude each other: pass one of them")
    if is_dry_run():
        store, storage_options, append, overwrite = dry_run_folder(), None, False, False
    location = Location.from_url(store, storage_options)
    # Manifest and root are visible to all readers of the store: they contain no credentials.
    manifest = to_json({"format": FORMAT, **redact_urls(provenance)})
    check = partial(_check_target, location, manifest, replaces=append or overwrite, append=append, reuse=reuse)
    check()  # before anything is written
    with hold_write_lock(location):
        # Checked again: another writer may have finished the store before the lock was acquired.
        finished = check()
        writer = _create_or_resume(location, finished, manifest, n_columns, append=append, overwrite=overwrite)
        yield writer if content is None else writer.match_content(content)


def _find_finished(location: Location) -> CountStore | Corpus | None:
    return open_finished(location) or find_corpus(location)


def _check_target(
    location: Location, manifest: dict[str, Any], *, replaces: bool, append: bool, reuse: bool
) -> CountStore | Corpus | None:
    """Return the finished store or corpus, None for a new one; raise StoreError if it does not fit the write."""
    finished, store = _find_finished(location), location.url
    if finished is None:
        if append:
            raise StoreError(f"append=True needs a finished store, but there is none at {store}: build it first")
        if location.read_attributes(zarr_format=None):
            raise StoreError(f"{store} is not a store of dspectral: choose another path, or remove it")
    elif isinstance(finished, Corpus) != ("corpus" in manifest):
        raise StoreError(f"there is already a finished {_get_kind(finished)} at {store}: choose another path")
    elif not replaces:
        plan = location.read_attributes(get_plan_path(finished.generation)) or {}
        expected = {**manifest, FIRST: finished.generation, CONTENT: plan.get(CONTENT)}
        if (different := _compare(plan, expected)) or not reuse:
            raise _finished_error(finished, different)
    return finished


def get_plan_path(generation: int) -> str:
    """Return the path of the manifest of a generation."""
    return f"plans/{generation:04d}"


def _compare(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Return the keys whose values differ."""
    return sorted(key for key in {*a, *b} if a.get(key) != b.get(key))


def _get_kind(finished: CountStore | Corpus) -> str:
    return "corpus" if isinstance(finished, Corpus) else "store"


def _finished_error(finished: CountStore | Corpus, different: list[str]) -> StoreError:
    kind, names = _get_kind(finished), ", ".join("rows" if name == FIRST else name for name in different)
    fits = kind == "store" and not set(SETTINGS) & set(different)
    adds = "append=True adds rows to it, " if fits else ""
    return StoreError(
        f"there is already a finished {kind} at {finished.location.url}{names and f', with other {names}'}: "
        f"open_{kind} opens it, {adds}overwrite=True replaces it"
    )


def _create_or_resume(
    location: Location,
    finished: CountStore | Corpus | None,
    manifest: dict[str, Any],
    n_columns: int | None,
    *,
    append: bool,
    overwrite: bool,
) -> StoreWriter:
    provenance = {key: value for key, value in manifest.items() if key != "format"}
    # Versions are not part of the manifest: a newer version may finish the build of an older one.
    provenance["versions"] = {name: version(name) for name in ("dspectral", "numpy", "zarr")}
    if finished is not None and not append and not overwrite:
        return StoreWriter(location, finished.generation, 0, provenance, (), resumed=True, finished=finished)
    first = generation = 0 if finished is None else finished.generation + 1
    blocks: tuple[BlockInfo, ...] = ()
    # An append has its own manifest; the finished root stays unchanged until `finish_store`.
    if append and isinstance(finished, CountStore):
        check_same_settings(finished, manifest, n_columns)
        history, n_columns, blocks = finished.provenance, finished.n_columns, finished.blocks
        provenance, first = {**history, "appended": [*history.get("appended", []), provenance]}, history.get(FIRST, 0)
    elif overwrite and generation:
        provenance[FIRST] = generation
    path, manifest = get_plan_path(generation), {**manifest, FIRST: first}
    existing = location.read_attributes(path) or {}  # a group without attributes after an interrupted write
    resumed = bool(existing) and _compare(existing, {**manifest, CONTENT: existing.get(CONTENT)}) == []
    if not resumed:
        if existing:
            location.remove(*_list_unfinished(location))
        elif not generation and not {"blocks", "totals", "vocabulary"}.isdisjoint(location.list_names()):
            raise StoreError(f"{location.url} is not a store of dspectral: choose another path, or remove it")
        location.write_attributes(path, manifest)
    return StoreWriter(location, generation, n_columns or 0, provenance, blocks, resumed)


def check_same_settings(store: CountStore, provenance: dict[str, Any], n_columns: int | None) -> None:
    """Raise StoreError if the settings of new rows differ from those of the store."""
    url = store.location.url
    for key in SETTINGS:
        given, stored = to_json(provenance.get(key)), to_json(store.provenance.get(key))
        if given != stored:
            if isinstance(given, dict) and isinstance(stored, dict):
                names = [name for name in given if given[name] != stored.get(name)]
                given, stored = (", ".join(f"{name} = {x.get(name)}" for name in names) for x in (given, stored))
            raise StoreError(
                f"append with {key} {given} must use {stored}, the setting of store {url}: repeat the call with it"
            )
    if n_columns is not None and n_columns != store.n_columns:
        raise StoreError(
            f"the rows to append have {n_columns} columns, but must have {store.n_columns}, as store {url}"
        )


def to_json(value: "JSON | tuple[Any, ...]") -> Any:
    """Return a value in the form that a JSON round trip gives."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {
            key: entry["name"] if key in ("tokenizer", "tokens") and is_record(entry) else to_json(entry)
            for key, entry in value.items()
        }
    return [to_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def add_totals(writer: StoreWriter, blocks: list[BlockInfo]) -> list[NDArray[Any]]:
    """Return the totals of the existing and the given blocks, in the order of their names."""
    totals = []
    # Added in the order of the rows, so that float64 sums are bit-identical under every scheduler.
    for part, dtype in zip(TOTALS, (np.float64, np.int64), strict=True):
        total = np.zeros(writer.n_columns, dtype=dtype)
        if writer.existing_blocks:
            total += read_array(writer.location, f"{get_totals_path(writer.generation - 1)}/{part}")
        for block in blocks:
            total += read_array(writer.location, f"{block.name}/{part}")
        totals.append(total)
    return totals


def finish_store(writer: StoreWriter, blocks: list[BlockInfo], totals: list[NDArray[Any]] | None = None) -> CountStore:
    """Write the totals, by default those of all blocks, and the root, which makes the store complete."""
    new_blocks = [block for block in blocks if block.n_rows]
    totals = add_totals(writer, new_blocks) if totals is None else totals
    for part, total in zip(TOTALS, totals, strict=True):
        write_array(writer.location, f"{get_totals_path(writer.generation)}/{part}", total)
    head = {
        "format": FORMAT,
        "generation": writer.generation,
        "n_columns": writer.n_columns,
        "blocks": (*writer.existing_blocks, *new_blocks),
        "provenance": to_json(writer.provenance),
        "totals": [compute_digest(total) for total in totals],
    }
    write_root(writer, KEY, head)
    return cast(CountStore, open_finished(writer.location))


def write_root(writer: StoreWriter, key: str, head: dict[str, Any]) -> None:
    """Write the root of a store or corpus, which finishes it, and remove temporary data and what it replaces."""
    # This single write finishes the store; leftover data would only use space.
    writer.location.write_attributes("", {key: add_content_hash(head)})
    replaced = list_replaced(writer.location, writer.provenance.get(FIRST, 0), {block[0] for block in head["blocks"]})
    writer.location.try_remove("scratch", *replaced)


def list_replaced(location: Location, first: int, block_names: set[str]) -> list[str]:
    """Return the paths of generations before the first that a finished store with these blocks does not need."""
    if not first:
        return []
    names = [(group, name) for group in ("blocks", "totals", "plans") for name in location.list_names(group)]
    paths = [f"{group}/{name}" for group, name in names if name[:4].isdecimal() and int(name[:4]) < first]
    vocabularies = {get_vocabulary_path(number) for number in range(first)}.intersection(location.list_names())
    return [*(path for path in paths if path not in block_names), *sorted(vocabularies)]


def discard_unfinished(
    store: str | PathLike[str], *, storage_options: dict[str, Any] | None = None, force: bool = False
) -> None:
    """Remove the data of an unfinished build or append; the rows of a finished store are kept.

    Parameters
    ----------
    store : str or path-like
        Local path or fsspec URL of the store or corpus.
    storage_options : dict, optional
        Options of its file system.
    force : bool, default=False
        Whether to ignore the lock of another writer. In a bucket, the lock of a killed process remains.

    Raises
    ------
    StoreError
        If another writer holds the lock.

    Notes
    -----
    No task of the build may still run on a cluster: its blocks would be mistaken for those of the next build.

    Examples
    --------
    >>> from dspectral import write_counts
    >>> store = write_counts(np.eye(2), "memory://kept")
    >>> discard_unfinished("memory://kept")
    >>> store.counts.compute().toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    location = Location.from_url(store, storage_options)
    if force:
        unlock(location)
    if _list_unfinished(location):
        with hold_write_lock(location):
            location.remove(*_list_unfinished(location))


def _list_unfinished(location: Location) -> list[str]:
    """Return the paths of an unfinished write; empty if there is none."""
    finished = _find_finished(location)
    generation = 0 if finished is None else finished.generation + 1
    plan = get_plan_path(generation)
    if location.read_attributes(plan) is None:  # the manifest is written first
        return []
    written = ["blocks", "totals"]  # all groups of a first build
    if finished is not None:
        names = (name for name in location.list_names("blocks") if name.startswith(f"{generation:04d}-"))
        written = [*(f"blocks/{name}" for name in names), get_totals_path(generation)]
    # The manifest is last, so that an interrupted removal can be repeated.
    return [*written, get_vocabulary_path(generation), "scratch", plan]
