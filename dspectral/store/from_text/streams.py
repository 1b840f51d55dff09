"""Open local, remote and compressed files in any encoding, and fingerprint files to detect changes."""

import bz2
import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, cast
from zipfile import BadZipFile, ZipFile, ZipInfo

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from dspectral.engine.around.file_systems import open_file_system
from dspectral.engine.around.retries import retry
from dspectral.paths import check_regular_file
from dspectral.store.location import is_local, redact_urls

# The first available key is used. Later ones may change without the content, such as the ETag of Google Cloud Storage.
ETAG_KEYS = ("generation", "ETag", "etag", "md5Hash", "Content-MD5", "CRC")
TIME_KEYS = (
    "LastModified", "last_modified", "Last-Modified", "mtime", "modified", "updated", "created", "date_time"
)  # fmt: skip


def get_fingerprint(file_system: fsspec.AbstractFileSystem, path: str, info: dict[str, Any] | None = None) -> str:
    """Return the fingerprint of a file: size with times or an ETag."""
    if is_local(file_system):
        # Programs can set mtime but not ctime. fsspec lists ctime on some systems only, and does not follow links.
        status = os.stat(path)  # noqa: PTH116  a path of fsspec
        return f"file {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    info = file_system.info(path) if info is None else info
    size = info.get("size")
    etag = next((str(info[key]).strip('"') for key in ETAG_KEYS if info.get(key)), None)
    if etag is not None:
        return f"etag {size} {etag}"
    times = [str(info[key]).replace(" ", "T") for key in TIME_KEYS if info.get(key)]
    if isinstance(file_system, MemoryFileSystem):  # its listing has no modification time
        times.append(str(file_system.modified(path)).replace(" ", "T"))
    return f"time {size} {' '.join(times)}" if times else f"size {size}"


def get_current_fingerprint(url: str, options: dict[str, Any]) -> str:
    """Return the current fingerprint of a file, ignoring cached listings."""

    def read() -> str:
        file_system, path = open_file_system(url, options)
        file_system.invalidate_cache()
        return get_fingerprint(file_system, path)

    return retry(read, description=f"looking at {redact_urls(url)}")


FIRST_BYTES = {b"\x1f\x8b\x08": "gz", b"\x28\xb5\x2f\xfd": "zst", b"PK\x03\x04": "zip"}
"""First bytes of compressed files."""
ZSTD_INPUT_BYTES = 256
"""Compressed bytes per decompression step; repeated text can expand them ten thousand times."""
ZSTD_MAX_WINDOW = 1 << 31
"""Largest window of Zstandard, that of ``--long=31``; a frame allocates only its own window."""


def detect_compression(head: bytes, compression: str | None) -> str | None:
    """Return the compression that the first bytes of a file show, or else that of its name."""
    return next((kind for start, kind in FIRST_BYTES.items() if head.startswith(start)), compression)


@contextmanager
def open_decompressed(url: str, compression: str | None, options: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed by its first bytes or its name."""
    with open_raw(url, options) as file, io.BufferedReader(file) as raw:  # type: ignore[type-var]
        compression = detect_compression(raw.peek(4), compression)
        with annotate_decompression_errors(url, compression):
            if compression == "gz":
                yield gzip.GzipFile(fileobj=raw)  # type: ignore[misc]
            elif compression == "bz2":
                yield bz2.BZ2File(raw)
            elif compression == "zip":
                with ZipFile(raw) as archive:
                    yield archive.open(_find_member(archive, url))
            else:
                yield io.BufferedReader(_IteratorIO(_decompress_zstd(raw))) if compression == "zst" else raw


@contextmanager
def annotate_decompression_errors(url: str, compression: str | None) -> Iterator[None]:
    """Context in which decompression errors become a ValueError with the file name."""
    try:
        yield
    # bz2 raises OSError without errno for damaged data, and gzip a subclass of it; the file system sets errno.
    except (OSError, EOFError, zlib.error, BadZipFile, _get_zstd_error()) as error:
        is_damage = isinstance(error, gzip.BadGzipFile) or (compression == "bz2" and not getattr(error, "errno", None))
        if isinstance(error, OSError) and not is_damage:
            raise
        fault = "its compressed data ends too early" if isinstance(error, EOFError) else str(error)
        raise ValueError(
            f"{url} is truncated, damaged or not a .{compression} file ({fault}): copy it again"
        ) from error


def get_zip_member(url: str, options: dict[str, Any]) -> str:
    """Return the name of the only file of a zip archive."""
    with open_raw(url, options) as raw, annotate_decompression_errors(url, "zip"), ZipFile(raw) as archive:
        return _find_member(archive, url).filename


def _find_member(archive: ZipFile, url: str) -> ZipInfo:
    members = [member for member in archive.infolist() if not member.is_dir() and "__MACOSX" not in member.filename]
    if len(members) != 1 or members[0].flag_bits & 1:
        fault = f"has {len(members)} files" if len(members) != 1 else "is encrypted"
        raise ValueError(f"{url} {fault}, but a .zip file must have one, without a password: unpack it")
    return members[0]


@contextmanager
def open_raw(url: str, options: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for reading without decompression."""
    holder = fsspec.open(url, "rb", **options)  # an archive is closed when its OpenFile is collected
    if is_local(holder.fs):
        check_regular_file(holder.path)
    file: Any = holder.open()
    # fsspec shares one object per in-memory file, so concurrent readers would share its position.
    with io.BytesIO(file.getvalue()) if isinstance(file, io.BytesIO) else file as raw:
        yield raw


class _IteratorIO(io.RawIOBase):
    """Readable file over an iterator of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # An empty chunk is not EOF: a frame or character may continue in the next input.
        while not self._left:
            if (chunk := next(self._chunks, None)) is None:
                return 0
            self._left = memoryview(chunk)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _decompress_zstd(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield decompressed Zstandard frames; raises EOFError for a truncated frame, unlike the library's reader."""
    # Invariant: `frame` is not None inside a frame, where EOF means truncation.
    frame, zstandard = cast("Any", None), import_extra("zstandard", ".zst files need")
    while compressed := memoryview(raw.read(1 << 17)):
        while compressed:
            frame = frame or zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW).decompressobj()
            # The decompressor returns all output of its input, so small inputs bound the memory.
            few = compressed[:ZSTD_INPUT_BYTES]
            yield frame.decompress(few)
            compressed = compressed[len(few) - len(frame.unused_data) :]
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError


def import_extra(name: str, feature: str) -> Any:
    """Import a module of the optional extra ``dspectral[text]`` and return its package."""
    package = name.partition(".")[0]
    try:
        import_module(name)
    except ImportError as error:
        raise ImportError(f"{feature} {package}: pip install 'dspectral[text]'") from error
    return import_module(package)


def _get_zstd_error() -> type[Exception]:
    try:
        return import_module("zstandard").ZstdError
    except ImportError:
        return zlib.error


WIDE_ENCODINGS = ("utf-16", "utf-32")
"""Name prefixes of encodings in which a line end has several bytes."""
TRANSCODE_BYTES = 1 << 18


def normalize_encoding(encoding: str | None) -> str | None:
    """Return the canonical name of an encoding; None for UTF-8."""
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
        line_end = "\n".encode(name)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"encoding={encoding!r:.60} must be a text encoding of Python, such as 'utf-8', 'latin-1', 'cp1252' or "
            "'utf-16'"
        ) from error
    if name in ("utf-8", "utf-8-sig"):
        return None
    if line_end != b"\n" and not name.startswith(WIDE_ENCODINGS):
        raise ValueError(f"encoding={encoding!r} must encode line ends as LF: convert the files to UTF-8")
    return name


def is_wide(encoding: str | None) -> bool:
    """Report whether line ends of an encoding have several bytes."""
    return encoding is not None and encoding.startswith(WIDE_ENCODINGS)


def decode_error_message(encoding: str, error: UnicodeDecodeError) -> str:
    """Return the message for an undecodable byte."""
    byte = error.object[error.start : error.start + 1].hex()
    return f"byte 0x{byte} is invalid in {encoding} ({error.reason}); use errors='replace', or another encoding="


@contextmanager
def open_as_utf8(file: IO[bytes], url: str, encoding: str | None, errors: str) -> Iterator[IO[bytes]]:
    """Yield a file of a wide encoding transcoded to UTF-8; yield other files unchanged."""
    if encoding is None or not is_wide(encoding):
        yield file
    else:
        yield io.BufferedReader(_IteratorIO(_transcode(file, url, encoding, errors)))


def _transcode(file: IO[bytes], url: str, encoding: str, errors: str) -> Iterator[bytes]:
    """Yield the content of a file transcoded to UTF-8."""
    decoder, byte_position, data = codecs.getincrementaldecoder(encoding)(errors), 0, b" "
    # A read may end inside a character, whose first bytes stay in the decoder; `byte_position` counts the bytes of
    # earlier reads.
    while data:
        data = file.read(TRANSCODE_BYTES)
        waiting = len(decoder.getstate()[0])
        try:
            yield decoder.decode(data, final=not data).encode("utf-8", "replace")
        except UnicodeDecodeError as error:
            position = byte_position - waiting + error.start
            raise ValueError(f"{url}, byte {position}: {decode_error_message(encoding, error)}") from error
        except UnicodeError as error:  # UTF-16 without a byte order mark, in some versions of Python
            raise ValueError(f"{url} is not valid {encoding} ({error}): use another encoding=") from error
        byte_position += len(data)
