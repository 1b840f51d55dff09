"""Bytes of local, remote and compressed files; a damaged file says so, and which it is."""

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import fsspec

from dspectral.engine.retrying import retried
from dspectral.store.from_text.stamps import refuse_if_there
from dspectral.store.secrets import without_secrets

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
