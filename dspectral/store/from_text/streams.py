"""Bytes of local, remote and compressed files, stamps that tell a changed file, and sentences for damaged ones."""

import bz2
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import fsspec

from dspectral.engine.retrying import retried
from dspectral.store.location import without_secrets

# The first that is there: what follows may change without the content, as the ETag of Google's storage does.
_ETAGS = ("generation", "ETag", "etag", "md5Hash", "Content-MD5", "CRC")
_TIMES = (
    "LastModified",
    "last_modified",
    "Last-Modified",
    "mtime",
    "modified",
    "updated",
    "created",
    "date_time",
)


def stamp_of(system: fsspec.AbstractFileSystem, path: str, info: dict[str, Any] | None = None) -> str:
    """Return the stamp of a file.

    >>> with fsspec.open("memory://stamped.txt", "w") as file:
    ...     _ = file.write("abc")
    >>> stamp_of(*fsspec.url_to_fs("memory://stamped.txt")).split()[:2]
    ['time', '3']
    """
    protocols = (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)
    if "file" in protocols:
        # The time of any change (ctime) cannot be set by programs: tools that keep the time of the content (mtime)
        # are seen. Listings have it on some systems only, and of a link they say what the link is.
        found = os.stat(path)  # noqa: PTH116  a path of fsspec
        return f"file {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    info = system.info(path) if info is None else info
    size = info.get("size")
    etag = next((str(info[key]).strip('"') for key in _ETAGS if info.get(key)), None)
    if etag is not None:
        return f"etag {size} {etag}"
    times = [str(info[key]).replace(" ", "T") for key in _TIMES if info.get(key)]
    if "memory" in protocols:  # its listing knows when a file was made, and not when it was written in place
        times.append(str(system.modified(path)).replace(" ", "T"))
    return f"time {size} {' '.join(times)}" if times else f"size {size}"


def fresh_stamp(url: str, options: dict[str, Any]) -> str:
    """Return the stamp that a file has now, whatever was listed before."""
    return retried(_fresh_stamp, url, options, what=f"looking at {without_secrets(url)}")


def _fresh_stamp(url: str, options: dict[str, Any]) -> str:
    system, path = fsspec.url_to_fs(url, **options)
    system.invalidate_cache()
    try:
        return stamp_of(system, path)
    except FileNotFoundError as error:
        refuse_if_there(system, path, error)
        raise


def refuse_if_there(system: fsspec.AbstractFileSystem, path: str, error: Exception | None = None) -> None:
    """Raise an error that may pass if a file is there after all, which was not found when it was asked for."""
    system.invalidate_cache()
    listed: set[str] = set()
    with suppress(Exception):  # a server without listings has errors of its own
        listed.update(str(name).rstrip("/") for name in system.ls(path.rpartition("/")[0], detail=False))
    if path in listed or system.exists(path):
        raise OSError(f"{path} is there, but was not found") from error


_FEW = 256
"""Bytes that zstandard decompresses at once: they can stand for ten thousand times as many of repeated text."""


@contextmanager
def open_bytes(url: str, compression: str | None, options: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed."""
    with open_raw(url, options) as raw, name_damage(url, compression):
        yield _decompress(raw, compression)


@contextmanager
def name_damage(url: str, compression: str | None) -> Iterator[None]:
    """Turn the errors of decompression into a sentence that names the file."""
    try:
        yield
    except EOFError as error:
        raise ValueError(f"{url} is truncated: its compressed data ends too early") from error
    except (zlib.error, gzip.BadGzipFile, _zstd_error()) as error:
        raise ValueError(f"{url} is damaged, or not a .{compression} file: {error}") from error
    # bz2 reports damaged data as an OSError without a number; with one it is an error of the file system.
    except OSError as error:
        if compression != "bz2" or error.errno is not None:
            raise
        raise ValueError(f"{url} is damaged, or not a .bz2 file: {error}") from error


@contextmanager
def open_raw(url: str, options: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for reading, as it is stored."""
    raw: Any = _Reopened(url, options)
    with raw:
        yield raw


def _decompress(raw: IO[bytes], compression: str | None) -> Any:
    if compression == "gz":
        return gzip.GzipFile(fileobj=raw)
    if compression == "bz2":
        return bz2.BZ2File(raw)
    return io.BufferedReader(_Zstandard(raw)) if compression == "zst" else raw


class _Reopened(io.RawIOBase):
    """A file as it is stored, which is opened again at its place where a read fails for a moment."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._url = url
        self._options = options
        self._holder: Any = None
        self._file: Any = None
        # Invariant: what is read next begins at this byte, in whichever file.
        self._at = 0
        self._named = without_secrets(url)
        retried(self._open, what=f"opening {self._named}")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file is not None and self._file.seekable())

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = retried(self._read, size, what=f"reading {self._named}")
        self._at += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = int(self._file.seek(offset, whence))
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
        super().close()

    def _open(self) -> None:
        try:
            # Kept as well: an archive closes what is open in it when nobody holds it any more.
            self._holder = fsspec.open(self._url, "rb", **self._options)
            file = self._holder.open()
        except FileNotFoundError as error:
            # It was there when it was planned: a storage over a network says at times that it is not.
            system, path = fsspec.url_to_fs(self._url, **self._options)
            refuse_if_there(system, path, error)
            raise
        # All who open a file in memory get one object, with one position: spans that are read at once would mix.
        self._file = io.BytesIO(file.getvalue()) if isinstance(file, io.BytesIO) else file

    def _read(self, size: int) -> bytes:
        try:
            if self._file is None:
                self._open()
                self.seek(self._at)
            data: bytes = self._file.read(size)
        except Exception:
            file, self._file = self._file, None
            if file is not None:
                with suppress(Exception):  # it has failed already
                    file.close()
            raise
        return data


class _Zstandard(io.RawIOBase):
    """Frames of zstandard as one stream; the library's own reader takes a truncated frame for a whole one."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame: Any = None
        self._compressed = memoryview(b"")
        self._text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # `_compressed` was read and not decompressed yet, `_text` decompressed and not handed out yet. A frame is
        # open while `_frame` is not None: the end of the file is truncation then.
        while not self._text:
            self._compressed = self._compressed or memoryview(self._raw.read(1 << 17))
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._text = memoryview(self._decompress())
        size = min(len(buffer), len(self._text))
        buffer[:size] = self._text[:size]
        self._text = self._text[size:]
        return size

    def _decompress(self) -> bytes:
        if self._frame is None:
            self._frame = _zstandard().ZstdDecompressor().decompressobj()
        # The decompressor returns all the text that its input stands for: little input bounds the memory.
        few = self._compressed[:_FEW]
        text: bytes = self._frame.decompress(few)
        behind = len(self._frame.unused_data)  # of the next frame
        self._compressed = self._compressed[len(few) - behind :]
        if self._frame.eof:
            self._frame = None
        return text


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ImportError(".zst files need zstandard: pip install 'dspectral[text]'") from error
    return zstandard


def _zstd_error() -> type[Exception]:
    try:
        error: type[Exception] = _zstandard().ZstdError
    except ImportError:
        return zlib.error
    return error
