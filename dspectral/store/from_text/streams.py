"""Bytes of local, remote and compressed files in whatever encoding, and stamps that tell a changed file."""

import bz2
import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from dspectral.engine.around.retries import retry
from dspectral.paths import check_regular_file
from dspectral.store.location import is_local, without_secrets

# The first that is there: what follows may change without the content, as the ETag of Google's storage does.
ETAG_KEYS = ("generation", "ETag", "etag", "md5Hash", "Content-MD5", "CRC")
TIME_KEYS = (
    "LastModified", "last_modified", "Last-Modified", "mtime", "modified", "updated", "created", "date_time"
)  # fmt: skip


def get_fingerprint(system: fsspec.AbstractFileSystem, path: str, info: dict[str, Any] | None = None) -> str:
    """Return the stamp of a file."""
    if is_local(system):
        # The time of any change (ctime) cannot be set by programs: tools that keep the time of the content (mtime)
        # are seen. Listings have it on some systems only, and of a link they say what the link is.
        found = os.stat(path)  # noqa: PTH116  a path of fsspec
        return f"file {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    info = system.info(path) if info is None else info
    size = info.get("size")
    etag = next((str(info[key]).strip('"') for key in ETAG_KEYS if info.get(key)), None)
    if etag is not None:
        return f"etag {size} {etag}"
    times = [str(info[key]).replace(" ", "T") for key in TIME_KEYS if info.get(key)]
    if isinstance(system, MemoryFileSystem):  # its listing does not know when a file was written in place
        times.append(str(system.modified(path)).replace(" ", "T"))
    return f"time {size} {' '.join(times)}" if times else f"size {size}"


def get_current_fingerprint(url: str, options: dict[str, Any]) -> str:
    """Return the stamp that a file has now, whatever was listed before."""
    return retry(_get_current_fingerprint, url, options, what=f"looking at {without_secrets(url)}")


def _get_current_fingerprint(url: str, options: dict[str, Any]) -> str:
    system, path = fsspec.url_to_fs(url, **options)
    system.invalidate_cache()
    try:
        return get_fingerprint(system, path)
    except FileNotFoundError as error:
        raise_if_exists(system, path, error)
        raise


def raise_if_exists(system: fsspec.AbstractFileSystem, path: str, error: Exception | None = None) -> None:
    """Raise an error that may pass if a file is there after all, which was not found when it was asked for."""
    system.invalidate_cache()
    listed: set[str] = set()
    with suppress(Exception):  # a server without listings has errors of its own
        listed.update(str(name).rstrip("/") for name in system.ls(path.rpartition("/")[0], detail=False))
    if path in listed or system.exists(path):
        raise OSError(f"{path} is there, but was not found") from error


ZSTD_INPUT_BYTES = 256
"""Bytes that zstandard decompresses at once: they can stand for ten thousand times as many of repeated text."""
ZSTD_MAX_WINDOW = 1 << 31
"""Largest window of zstandard, that of ``--long=31``; a frame takes the memory of its own window."""


@contextmanager
def open_decompressed(url: str, compression: str | None, options: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed."""
    with open_raw(url, options) as raw, annotate_decompression_errors(url, compression):
        yield _open_decompressor(raw, compression)


@contextmanager
def annotate_decompression_errors(url: str, compression: str | None) -> Iterator[None]:
    """Turn the errors of decompression into a sentence that names the file."""
    try:
        yield
    except EOFError as error:
        raise ValueError(f"{url} is truncated: its compressed data ends too early") from error
    except (zlib.error, gzip.BadGzipFile, _get_zstd_error()) as error:
        raise ValueError(f"{url} is damaged, or not a .{compression} file: {error}") from error
    # bz2 reports damaged data as an OSError without a number; with one it is an error of the file system.
    except OSError as error:
        if compression != "bz2" or error.errno is not None:
            raise
        raise ValueError(f"{url} is damaged, or not a .bz2 file: {error}") from error


@contextmanager
def open_raw(url: str, options: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for reading, as it is stored."""
    holder = fsspec.open(url, "rb", **options)  # held, as an archive closes what nobody holds
    try:
        if is_local(holder.fs):
            check_regular_file(holder.path)
        file: Any = holder.open()
    except FileNotFoundError as error:
        # It was there when it was planned: a storage over a network says at times that it is not.
        system, path = fsspec.url_to_fs(url, **options)
        raise_if_exists(system, path, error)
        raise
    # All who open a file in memory get one object, with one position: spans that are read at once would mix.
    with io.BytesIO(file.getvalue()) if isinstance(file, io.BytesIO) else file as raw:
        yield raw


def _open_decompressor(raw: IO[bytes], compression: str | None) -> Any:
    if compression == "gz":
        return gzip.GzipFile(fileobj=raw)
    if compression == "bz2":
        return bz2.BZ2File(raw)
    return io.BufferedReader(_IteratorIO(_decompress_zstd(raw))) if compression == "zst" else raw


class _IteratorIO(io.RawIOBase):
    """Chunks of bytes, made as they are asked for, as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # A chunk may be empty without being the last one: a frame or a letter that goes on in the next input.
        while not self._left:
            if (chunk := next(self._chunks, None)) is None:
                return 0
            self._left = memoryview(chunk)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _decompress_zstd(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield what frames of zstandard hold; the library's own reader takes a truncated frame for a whole one."""
    # A frame is open while `frame` is not None: the end of the file is truncation then.
    frame: Any = None
    while compressed := memoryview(raw.read(1 << 17)):
        while compressed:
            frame = (
                frame or _import_zstandard().ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW).decompressobj()
            )
            # The decompressor returns all the text that its input stands for: little input bounds the memory.
            few = compressed[:ZSTD_INPUT_BYTES]
            yield frame.decompress(few)
            # What is unused is of the next frame.
            compressed = compressed[len(few) - len(frame.unused_data) :]
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError


def import_extra(name: str, what: str) -> Any:
    """Import a module of the extra ``dspectral[text]``, which is optional, and return its package."""
    package = name.partition(".")[0]
    try:
        import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} {package}: pip install 'dspectral[text]'") from error
    return import_module(package)


def _import_zstandard() -> Any:
    return import_extra("zstandard", ".zst files need")


def _get_zstd_error() -> type[Exception]:
    try:
        error: type[Exception] = _import_zstandard().ZstdError
    except ImportError:
        return zlib.error
    return error


WIDE_ENCODINGS = ("utf-16", "utf-32")
"""Beginnings of the names of encodings in which a line end is more than one byte."""
TRANSCODE_BYTES = 1 << 18


def normalize_encoding(encoding: str | None) -> str | None:
    """Return the name of an encoding, None for UTF-8."""
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
        line_end = "\n".encode(name)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"encoding is {encoding!r:.60}, but it must be one that Python knows, such as 'utf-8', 'latin-1', 'cp1252' "
            "or 'utf-16'"
        ) from error
    if name in ("utf-8", "utf-8-sig"):
        return None
    if line_end != b"\n" and not name.startswith(WIDE_ENCODINGS):
        raise ValueError(
            f"encoding is {encoding!r}, but its lines do not end in one known way: convert the files"
        )
    return name


def is_wide(encoding: str | None) -> bool:
    """Report whether files of an encoding cannot be cut at bytes that are line ends."""
    return encoding is not None and encoding.startswith(WIDE_ENCODINGS)


def decode_error_message(encoding: str, error: UnicodeDecodeError) -> str:
    """Return the sentence of an undecodable byte, and which options help."""
    byte = error.object[error.start : error.start + 1].hex()
    return (
        f"byte 0x{byte} is not {encoding} ({error.reason}); errors='replace' reads on, and encoding= names another "
        "encoding"
    )


@contextmanager
def open_as_utf8(file: IO[bytes], url: str, encoding: str | None, errors: str) -> Iterator[IO[bytes]]:
    """Turn a file of a wide encoding into one of UTF-8 as it is read; others stay."""
    if encoding is None or not is_wide(encoding):
        yield file
    else:
        yield io.BufferedReader(_IteratorIO(_transcode(file, url, encoding, errors)))


def _transcode(file: IO[bytes], url: str, encoding: str, errors: str) -> Iterator[bytes]:
    """Yield a file of another encoding as UTF-8."""
    decoder, at, data = codecs.getincrementaldecoder(encoding)(errors), 0, b" "
    # A read may end within a letter, whose first bytes wait in the decoder; `at` are the bytes that were read before.
    while data:
        data = file.read(TRANSCODE_BYTES)
        waiting = len(decoder.getstate()[0])
        try:
            yield decoder.decode(data, final=not data).encode("utf-8", "replace")
        except UnicodeDecodeError as error:
            position = at - waiting + error.start
            raise ValueError(f"{url}, byte {position}: {decode_error_message(encoding, error)}") from error
        except UnicodeError as error:  # UTF-16 without a byte order mark, as some Pythons say it
            raise ValueError(f"{url} is not {encoding}: {error}") from error
        at += len(data)
