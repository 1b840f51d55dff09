"""Where a store is: its groups, their attributes and listings, asked again where an answer fails for a moment."""

import json
from typing import Any, Literal, NamedTuple, cast

import fsspec
import zarr
from zarr.errors import ContainsGroupError

from dspectral.engine.keeping import UnknownContentError
from dspectral.engine.kept_parts import Folder
from dspectral.engine.retrying import retried
from dspectral.store.patient import PatientFsspecStore, PatientLocalStore, PatientStore
from dspectral.store.secrets import without_secrets

METADATA = ("zarr.json", ".zgroup", ".zattrs", ".zarray")
"""Files that make a folder a group or an array of Zarr."""
GROUP_KEYS = {"attributes", "zarr_format", "node_type", "consolidated_metadata"}
"""What the metadata of a group may hold."""


class StoreError(ValueError):
    """A store, or a block of one, is missing, unfinished or damaged; the message names it."""


class Location(NamedTuple):
    """The place of a Zarr store: all that a task needs to open it.

    Attributes
    ----------
    url : str
        A local path, or any URL that fsspec knows.
    options : tuple of (str, object), default=()
        Storage options of the file system, as pairs.
    """

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, url: str, storage_options: dict[str, Any] | None = None) -> "Location":
        """Return the place that a user named.

        Parameters
        ----------
        url : str
            A local path, which is made absolute because workers have directories of their own, or a URL.
        storage_options : dict, optional
            Options of the file system.

        Returns
        -------
        Location
            The place, which pickles.
        """
        return cls(*Folder.of(url, storage_options))

    def known_content(self) -> object:
        """Raise an error: a place may hold other content tomorrow."""
        raise UnknownContentError(
            f"they are read from {without_secrets(self.url)}, which keeps no digests of what it holds"
        )

    def open(self, *, read_only: bool = True) -> PatientStore:
        """Open the Zarr store.

        Parameters
        ----------
        read_only : bool, default=True
            Whether writing is refused.

        Returns
        -------
        PatientLocalStore or PatientFsspecStore
            The store; nothing is read yet.
        """
        # Zarr's own local store writes a file aside and renames it, so that a killed writer leaves no half file.
        if _is_url(self.url):
            opened = PatientFsspecStore.from_url(
                self.url, storage_options=dict(self.options), read_only=read_only
            )
            return cast(PatientFsspecStore, opened)  # Zarr says that it is one of its own
        return PatientLocalStore(self.url, read_only=read_only)

    def attributes(
        self, path: str = "", *, zarr_format: Literal[2, 3] | None = 3, sure: bool = False
    ) -> dict[str, Any] | None:
        """Return the attributes of a group.

        Parameters
        ----------
        path : str, default=""
            The group's path inside the store; the root by default.
        zarr_format : {2, 3, None}, default=3
            The format that the group must have; None takes both.
        sure : bool, default=False
            Whether None is returned only after the group was asked for twice and a listing has none either. Storage
            over a network says at times that something is not there which is.

        Returns
        -------
        dict or None
            The attributes; None where there is no group.

        Raises
        ------
        StoreError
            If there is something else, or the group's metadata is damaged.
        """
        said = f"{self.url}, {path}" if path else self.url
        return retried(self._attributes, path, zarr_format, sure, what=f"reading the metadata of {said}")

    def _attributes(self, path: str, zarr_format: Literal[2, 3] | None, sure: bool) -> dict[str, Any] | None:
        found = self._group_attributes(path, zarr_format)
        if found is None and sure:
            refuse_if_listed(self, path, *(("zarr.json",) if zarr_format == 3 else ()))
            return self._group_attributes(path, zarr_format)
        return found

    def _group_attributes(self, path: str, zarr_format: Literal[2, 3] | None) -> dict[str, Any] | None:
        if zarr_format != 2 and (written := self._written_attributes(path)) is not None:
            return written
        # Zarr says what is wrong, and reads what other programs have written.
        try:
            # Consolidated metadata is a copy of an earlier moment, in which a mark that was written since is missing.
            group = zarr.open_group(
                self.open(), path=path, mode="r", zarr_format=zarr_format, use_consolidated=False
            )
        except FileNotFoundError:
            return None
        except ValueError as error:  # of Zarr and of JSON
            at = f"{self.url}, {path}" if path else self.url
            raise StoreError(f"{at} is not a group of Zarr with readable metadata: {error}") from error
        return dict(group.attrs.asdict())

    def _written_attributes(self, path: str) -> dict[str, Any] | None:
        """Return the attributes of a group of format 3 in a folder of this machine, None for everything else."""
        store = self.open()
        if not isinstance(store, PatientLocalStore):
            return None
        (content,) = store.read_files(f"{path}/zarr.json" if path else "zarr.json")
        try:
            metadata = {} if content is None else json.loads(content.tobytes())
        except ValueError:
            return None
        if not isinstance(metadata, dict) or not {"attributes", "node_type"} <= metadata.keys() <= GROUP_KEYS:
            return None
        of_group = metadata["node_type"] == "group" and metadata.get("zarr_format") == 3
        return metadata["attributes"] if of_group and isinstance(metadata["attributes"], dict) else None

    def mark(self, path: str, attributes: dict[str, Any]) -> None:
        """Add attributes to a group in one write; the group is made if need be.

        Parameters
        ----------
        path : str
            The group's path inside the store.
        attributes : dict
            Names and values that JSON knows.
        """
        retried(self._mark, path, attributes, what=f"writing the metadata of {self.url}, {path}")

    def _mark(self, path: str, attributes: dict[str, Any]) -> None:
        group = self._group(path)
        group.update_attributes(attributes)  # one write, where attrs.update is one for each key

    def names(self, path: str = "") -> list[str]:
        """List what lies directly under a path, in alphabetical order.

        Zarr's own listing opens every member and warns of whatever is none, such as the ``.partial`` files that
        its writers leave when they are killed.

        Parameters
        ----------
        path : str, default=""
            The path inside the store; the root by default.

        Returns
        -------
        list of str
            Names of files and folders, metadata files among them; none if there is nothing at the path.
        """
        return retried(self._names, path, what=f"listing {self.url}/{path}")

    def _names(self, path: str) -> list[str]:
        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        system.invalidate_cache()  # Zarr writes through another instance
        folder = f"{root.rstrip('/')}/{path}".rstrip("/")
        try:
            found = system.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(one.rstrip("/").rsplit("/", 1)[-1] for one in found)

    def remove(self, *paths: str) -> None:
        """Remove groups or arrays, one after the other, with all that is in them.

        Parameters
        ----------
        *paths : str
            Paths inside the store; where there is nothing, nothing is done.
        """
        for path in paths:
            retried(self._remove, path, what=f"removing {self.url}/{path}")

    def _remove(self, path: str) -> None:
        del self._group()[path]

    def _group(self, path: str = "") -> zarr.Group:
        """Open a group to write to it; it is made if need be."""
        try:
            return zarr.open_group(self.open(read_only=False), path=path, mode="a", zarr_format=3)
        except ContainsGroupError as error:  # it was not found at first, and then it was
            raise OSError(f"{self.url}, {path}: the group was not found for a moment") from error


def _is_url(url: str) -> bool:
    return "://" in url or "::" in url


def refuse_if_listed(where: Location, path: str, *names: str) -> None:
    """Raise an error that may pass if something is listed that was not found when it was asked for."""
    there = {*where.names(path)}.intersection(names or METADATA)
    if there:
        raise OSError(f"{where.url}, {path}: {min(there)} is listed, but was not found")
