"""Choice of files and documents by the content of sources."""

import re
from glob import has_magic

import fsspec

from dspectral.store.from_text.lines import LINE_CHUNK_BYTES, RECORD_START, ReadOptions
from dspectral.store.from_text.sources import get_format
from dspectral.store.from_text.streams import open_as_utf8, open_decompressed
from dspectral.store.from_text.text_input import TextInput
from dspectral.store.location import is_local

CODE_ENDINGS = re.compile(
    r"\.(c|cc|cpp|cs|go|h|hpp|java|js|md|php|pl|py|pyx|r|rb|rs|rst|scala|sh|sql|tex|ts)$", re.IGNORECASE
)
"""Endings of files that are one document each, because their lines are not."""
MIN_RECORD_SHARE = 0.2
"""Share of the first lines of a file that begin with a date or time, from which on the file is a log."""


def list_sources(paths: list[str], read_options: ReadOptions) -> list[str]:
    """Return the paths, with the files of code in place of a folder that has no file of text itself."""
    if (read_options.unit, read_options.field, read_options.format) != (None, None, None):
        return paths
    files: list[str] = []
    for path in paths:
        file_system, root = fsspec.url_to_fs(path, **read_options.options)
        is_folder = get_format(root)[0] is None and not has_magic(root) and file_system.isdir(root)
        code: list[str] = []
        if is_folder and all(get_format(name)[0] != "txt" for name in file_system.ls(root, detail=False)):
            names = sorted(file_system.find(root))
            code = [name for name in names if CODE_ENDINGS.search(name) and "/." not in name[len(root) :]]
        files += [name if is_local(file_system) else file_system.unstrip_protocol(name) for name in code]
        files += [] if code else [path]
    return files


def detect_unit(text: TextInput) -> str | None:
    """Return the unit of documents that is not the default one: "file" of code, "record" of a log, or None."""
    files = [file for source in text.ranges for file in source.files()]
    if files and all(CODE_ENDINGS.search(file.url) for file in files):
        return "file"
    if not files or files[0].format != "txt":
        return None
    first, options = files[0], text.read_options.options
    with (
        open_decompressed(first.url, first.compression, options) as raw,
        open_as_utf8(raw, first.url, first.encoding, "replace") as file,
    ):
        head = file.read(LINE_CHUNK_BYTES)
    n_lines = sum(map(bool, map(bytes.strip, head.split(b"\n"))))
    return "record" if len(RECORD_START.findall(head)) > MIN_RECORD_SHARE * n_lines else None
