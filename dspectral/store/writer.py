"""Protocol of every write: first a manifest, then blocks with completion markers, finally the root metadata.

Until the root is written, a new store does not open, and an existing store opens without the appended rows.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from typing import Any, NamedTuple, Self

import dask
import dask.threaded
import numpy as np
from dask.system import CPU_COUNT

from dspectral.engine.around.context import dry_run_folder, is_dry_run
from dspectral.store.arrays import add_content_hash, compute_digest, read_array, write_array
from dspectral.store.blocks import BlockInfo
from dspectral.store.counts import CORPUS_KEY, FORMAT, KEY, TOTALS, CountStore, get_totals_path, open_finished
from dspectral.store.location import Location, StoreError, redact_urls
from dspectral.store.lock import hold_write_lock, unlock
from dspectral.text.tokenizers import is_record, wrap_tokenizer_names
from dspectral.types import JSON

FINGERPRINTS = "stamps"
"""Temporary group, and its attribute, with the fingerprints of the source files."""


class StoreWriter(NamedTuple):
    """A store that is being built or appended to.

    `generation, provenance`: values of the finished store; `existing_blocks`: blocks before the append;
    `resumed`: whether an interrupted call with the same manifest may have written some blocks.
    """

    location: Location
    generation: int
    n_columns: int
    provenance: dict[str, Any]
    existing_blocks: tuple[BlockInfo, ...]
    resumed: bool

    @property
    def scratch(self) -> str:
        """Path of the group of temporary data, removed when the store is finished."""
        return f"scratch/{self.generation:04d}"

    def name(self, *numbers: int) -> str:
        """Return the path of a block; paths sort in the order of the rows."""
        return f"blocks/{self.generation:04d}-" + "-".join(f"{number:06d}" for number in numbers)

    def abort(self) -> None:
        """Remove everything that this call and interrupted ones have written, and the manifest."""
        self.location.remove(*_list_unfinished(self.location))

    def drop_history(self) -> Self:
        """Return a copy for tasks, without the fields that grow with the store."""
        return self._replace(provenance={}, existing_blocks=())

    def restart(self) -> Self:
        """Remove everything that an interrupted call has written; keep the manifest."""
        path = f"plans/{self.generation:04d}"
        manifest = self.location.read_attributes(path) or {}
        self.abort()
        self.location.write_attributes(path, manifest)
        return self._replace(resumed=False)


@contextmanager
def thread_pool_options(*, force: bool = False) -> Iterator[dict[str, Any]]:
    """Yield options of ``dask.compute`` with a thread pool; on exit, also by an error, its tasks have ended."""
    if not force and dask.base.get_scheduler() not in (None, dask.threaded.get):
        yield {}  # a single-threaded, process or distributed scheduler
        return
    with ThreadPoolExecutor(dask.config.get("num_workers", None) or CPU_COUNT) as pool:
        yield {"pool": pool, **({"scheduler": "threads"} if force else {})}


@contextmanager
def open_writer(
    store: str | PathLike[str],
    storage_options: dict[str, Any] | None,
    provenance: dict[str, Any],
    *,
    append: bool,
    n_columns: int | None = None,
    fingerprints: dict[str, str] | None = None,
) -> Iterator[StoreWriter]:
    """Lock a store and yield its writer: a new one, or one that resumes an interrupted write with the same manifest."""
    if is_dry_run():
        store, storage_options, append = dry_run_folder(), None, False
    location = Location.from_url(store, storage_options)
    # Manifest and root are visible to all readers of the store: they contain no credentials.
    provenance = to_json(redact_urls(provenance))
    fingerprints = {redact_urls(url): value for url, value in (fingerprints or {}).items()}
    _check_target(location, append=append)  # before anything is written
    try:
        with hold_write_lock(location):
            # Checked again: another writer may have finished the store before the lock was acquired.
            finished = _check_target(location, append=append)
            writer = _create_or_resume(location, finished, provenance, n_columns, fingerprints)
            # A fingerprint that is only a size does not detect changed text.
            if writer.resumed and any(value.startswith("size") for value in fingerprints.values()):
                writer = writer.restart()
            yield writer
    except PermissionError as error:
        if not str(error.filename).startswith(location.url):
            raise
        raise StoreError(
            f"no permission to write {error.filename} ({error.strerror}): the user who started the build at "
            f"{location.url} must finish or remove it"
        ) from error


def _check_target(location: Location, *, append: bool) -> CountStore | None:
    """Return the finished store to append to, None for a new one; raise StoreError if the location does not fit."""
    finished, store = open_finished(location), location.url
    if finished is None and append:
        raise StoreError(f"append=True needs a finished store, but there is none at {store}: build it first")
    if finished is not None and not append:
        raise StoreError(f"there is already a finished store at {store}: append=True adds rows to it")
    if finished is None:
        if CORPUS_KEY in (attributes := location.read_attributes(zarr_format=None) or {}):
            raise StoreError(f"there is already a finished corpus at {store}: open it with open_corpus")
        if attributes:
            raise StoreError(f"{store} is not a store of dspectral: choose another path, or remove it")
    return finished


def _create_or_resume(
    location: Location,
    finished: CountStore | None,
    provenance: dict[str, Any],
    n_columns: int | None,
    fingerprints: dict[str, str] | None,
) -> StoreWriter:
    # Versions are not part of the manifest: a newer version may finish the build of an older one.
    versions = {name: version(name) for name in ("dspectral", "numpy", "zarr")}
    manifest = {**provenance, "versions": versions}
    if finished is None:
        resumed = write_manifest(location, 0, provenance, fingerprints)
        return StoreWriter(location, 0, n_columns or 0, manifest, (), resumed)
    # An append has its own manifest; the finished root stays unchanged until `finish_store`.
    check_same_settings(finished, provenance, n_columns)
    generation = finished.generation + 1
    resumed = write_manifest(location, generation, provenance, fingerprints)
    history = {**finished.provenance, "appended": [*finished.provenance.get("appended", []), manifest]}
    return StoreWriter(location, generation, finished.n_columns, history, finished.blocks, resumed)


def write_manifest(
    location: Location,
    generation: int,
    provenance: dict[str, Any],
    fingerprints: dict[str, str] | None = None,
) -> bool:
    """Write the manifest; return True if an interrupted call has written the same one."""
    path, manifest = f"plans/{generation:04d}", to_json({"format": FORMAT, **provenance})
    fingerprints_path = f"scratch/{generation:04d}/{FINGERPRINTS}"
    existing = location.read_attributes(path)
    if not existing:  # no group, or one without attributes after an interrupted write
        if not generation and not {"blocks", "totals", "vocabulary"}.isdisjoint(location.list_names()):
            raise StoreError(f"{location.url} is not a store of dspectral: choose another path, or remove it")
        if fingerprints:
            location.write_attributes(fingerprints_path, {FINGERPRINTS: fingerprints})
        location.write_attributes(path, manifest)
        return False
    # Manifests of different versions may have different fields.
    different = sorted(key for key in {*existing, *manifest} if existing.get(key) != manifest.get(key))
    changed = []
    if fingerprints:
        stored = (location.read_attributes(fingerprints_path) or {}).get(FINGERPRINTS, {})
        changed = [url for url, value in fingerprints.items() if stored.get(url, value) != value]
    if changed and different in ([], ["sources"]):  # files that grew have other byte ranges
        raise changed_sources_error(location, changed)
    if different:
        verb = "differs" if len(different) == 1 else "differ"
        raise StoreError(
            f"an unfinished write with other arguments is at {location.url} (its {', '.join(different)} {verb}): "
            "finish it with the same call, or remove it with dspectral.store.discard_unfinished"
        )
    return True


def check_same_settings(store: CountStore, provenance: dict[str, Any], n_columns: int | None) -> None:
    """Raise StoreError if the settings of new rows differ from those of the store."""
    url = store.location.url
    for key in ("hashing", "vocabulary", "labels", "weighting", "id_field", "keep_texts"):
        given, stored = to_json(provenance.get(key)), to_json(store.provenance.get(key))
        if given != stored:
            given, stored = _describe_difference(given, stored)
            raise StoreError(
                f"append with {key} {given} must use {stored}, the setting of store {url}: repeat the call with it"
            )
    if n_columns is not None and n_columns != store.n_columns:
        raise StoreError(
            f"the rows to append have {n_columns} columns, but must have {store.n_columns}, as store {url}"
        )


def changed_sources_error(location: Location, urls: Sequence[str]) -> StoreError:
    """Return an error that names source files which have changed during a build."""
    shown_urls = ", ".join(map(redact_urls, urls[:3])) + (f" and {len(urls) - 3} more" if len(urls) > 3 else "")
    return StoreError(
        f"{shown_urls} changed since the start of the build at {location.url}: remove the unfinished build with "
        "dspectral.store.discard_unfinished, and build again"
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


def _describe_difference(given: JSON, stored: JSON) -> tuple[Any, Any]:
    """Return the different fields of two settings as text; the values themselves if they are not dicts."""
    if not (isinstance(given, dict) and isinstance(stored, dict)):
        return given, stored
    names = [name for name in {**stored, **given} if given.get(name) != stored.get(name)]
    given_text, other = (
        ", ".join(f"{name} = {provenance.get(name)!r}" for name in names) for provenance in (given, stored)
    )
    return given_text, other


def finish_store(writer: StoreWriter, blocks: list[BlockInfo]) -> CountStore:
    """Add the column sums of all blocks and write the root, which makes the store complete."""
    store = writer.location.open(read_only=False)
    new_blocks = [block for block in blocks if block.n_rows]
    # Added in the order of the rows, so that float64 sums are bit-identical under every scheduler.
    digests = []
    for part, dtype in zip(TOTALS, (np.float64, np.int64), strict=True):
        total = np.zeros(writer.n_columns, dtype=dtype)
        if writer.existing_blocks:
            total += read_array(writer.location, f"{get_totals_path(writer.generation - 1)}/{part}")
        for block in new_blocks:
            total += read_array(writer.location, f"{block.name}/{part}")
        write_array(store, f"{get_totals_path(writer.generation)}/{part}", total)
        digests.append(compute_digest(total))
    all_blocks = (*writer.existing_blocks, *new_blocks)
    head = {
        "format": FORMAT,
        "generation": writer.generation,
        "n_columns": writer.n_columns,
        "blocks": [block.as_list() for block in all_blocks],
        "provenance": to_json(writer.provenance),
        "totals": digests,
    }
    # This single write finishes the store; leftover temporary data would only use space.
    writer.location.write_attributes("", {KEY: add_content_hash(head)})
    writer.location.try_remove("scratch")
    sums = digests[0], digests[1]
    origin = wrap_tokenizer_names(head["provenance"])
    return CountStore(writer.location, all_blocks, writer.n_columns, writer.generation, origin, sums)


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
    finished = open_finished(location)
    generation = f"{0 if finished is None else finished.generation + 1:04d}"
    # The manifest is written first. A finished corpus has its own key in the root.
    is_corpus = CORPUS_KEY in (location.read_attributes() or {})
    if is_corpus or location.read_attributes(f"plans/{generation}") is None:
        return []
    written = ["vocabulary", "blocks", "totals"]  # all groups of a first build
    if finished is not None:
        names = (name for name in location.list_names("blocks") if name.startswith(f"{generation}-"))
        written = [*(f"blocks/{name}" for name in names), f"totals/{generation}"]
    # The manifest is last, so that an interrupted removal can be repeated.
    return [*written, "scratch", f"plans/{generation}"]
