"""Folders of partials: summaries that are kept, one file each, on any file system that fsspec knows."""

import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dspectral.engine.keeping.partial_files import decoded, encoded

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SUFFIX = ".partial"
NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}\.partial(\.[0-9a-f]{32}\.tmp)?$")
"""End of the path of a partial, or of one whose writing was cut short."""


class Part(NamedTuple):
    """A summary on its way up the tree.

    `summary`: the summary itself; `seconds`: time that making it again would take; `faults`: errors of
    summaries that could not be written.
    """

    summary: Any
    seconds: float
    faults: tuple[str, ...] = ()


class Kept(NamedTuple):
    """The amount of partials in a folder.

    `n_parts`: number of partials; `n_bytes`: bytes of all of them.
    """

    n_parts: int
    n_bytes: int


class PartialError(Exception):
    """A partial is missing, damaged, or another one."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


class Folder(NamedTuple):
    """Where partials are: all that a task needs to read and write them.

    `url`: absolute local path, or any URL that fsspec knows; `options`: storage options of the file system,
    as pairs.
    """

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, url: "str | Path", storage_options: dict[str, Any] | None = None) -> "Folder":
        """Return the folder that a user named; a local path is made absolute, as workers have folders of their own."""
        place = str(url)
        is_url = "://" in place or "::" in place
        return cls(
            place if is_url else str(Path(place).absolute()), tuple(sorted((storage_options or {}).items()))
        )

    def system(self) -> tuple[Any, str]:
        """Return the file system, and the path of the folder in it."""
        import fsspec  # noqa: PLC0415  only what is kept needs it

        system, root = fsspec.url_to_fs(self.url, **dict(self.options))
        return system, root.rstrip("/")

    def names(self, path: str) -> dict[str, int]:
        """Return the partials directly under a path, and the bytes of each; none where there is nothing."""
        system, root = self.system()
        system.invalidate_cache()  # workers write through other instances
        try:
            found = system.ls(f"{root}/{path}", detail=True)
        except FileNotFoundError:
            return {}
        sizes = {one["name"].rstrip("/").rpartition("/")[2]: int(one["size"] or 0) for one in found}
        return {name.removesuffix(SUFFIX): size for name, size in sizes.items() if name.endswith(SUFFIX)}

    def write(self, path: str, summary: object) -> int:
        """Write a summary, at once or not at all; return the bytes."""
        system, root = self.system()
        content = encoded(path, summary)
        place = f"{root}/{path}{SUFFIX}"
        if "file" not in _protocols(system):
            system.makedirs(place.rpartition("/")[0], exist_ok=True)
            # One put is whole or nothing in a store of objects; elsewhere the checksum tells a half.
            system.pipe_file(place, content)
            return len(content)
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        aside = Path(f"{place}.{uuid.uuid4().hex}.tmp")
        try:
            aside.write_bytes(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
        return len(content)

    def read(self, path: str) -> Any:
        """Read a summary; raise :class:`PartialError` if it is not there, or not as it was written."""
        system, root = self.system()
        try:
            content = system.cat_file(f"{root}/{path}{SUFFIX}")
        except OSError as error:
            raise PartialError(path, f"it cannot be read ({type(error).__name__}: {error})") from error
        try:
            return decoded(path, content)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError) as error:
            raise PartialError(path, f"{error}" if type(error) is ValueError else repr(error)) from error

    def clear(self) -> Kept:
        """Remove all partials, also those of which a part was written, and folders that are empty then."""
        system, root = self.system()
        system.invalidate_cache()
        found = {
            path: int(one["size"] or 0)
            for path, one in system.find(root, detail=True).items()
            if NAME.search(path) and path.removeprefix("/").startswith(root.removeprefix("/"))
        }
        for path in found:
            system.rm_file(path)
        if "file" in _protocols(system):
            for folder in {Path(path).parent for path in found}:
                with suppress(OSError):  # something else lies there
                    folder.rmdir()
        n_parts = sum(path.endswith(SUFFIX) for path in found)
        return Kept(n_parts, sum(found.values()))

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0])


def _protocols(system: "AbstractFileSystem") -> tuple[str, ...]:
    return system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)
