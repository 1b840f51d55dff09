"""Readers of 20 Newsgroups and Reuters-21578, as they are distributed."""

import html
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import PurePosixPath
from typing import Any, Literal

import fsspec

from dspectral.io import LabeledText

MAX_FILE_BYTES = 64 << 20
"""Maximum size of a file, in bytes."""
_ARTICLE = re.compile(r"<REUTERS\b([^>]*)>(.*?)(</REUTERS>|(?=<REUTERS\b)|\Z)", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


def read_newsgroups(
    folder: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> Iterator[LabeledText]:
    """Yield the posts of 20 Newsgroups from one folder per group, sorted by path; hidden files are skipped."""
    file_system, root = fsspec.url_to_fs(str(folder), **(storage_options or {}))
    # find() does not follow links to folders, so groups are listed first.
    groups = file_system.ls(root, detail=False) if file_system.isdir(root) else []
    paths_by_group = [file_system.find(group) for group in groups]
    n_root = len(PurePosixPath(root).parts)
    parts = {path: PurePosixPath(path).parts[n_root:] for group_paths in paths_by_group for path in group_paths}
    paths = sorted(path for path in parts if not any(part.startswith(".") for part in parts[path]))
    if not paths:
        raise ValueError(f"{folder} has no posts, but must have a folder for each group with a file for each post")
    # Latin-1 decodes every byte; the posts do not reliably declare an encoding.
    for path in paths:
        if len(parts[path]) != 2:
            raise ValueError(f"{path} must be {folder}/GROUP/POST: move other files out of the folder")
        yield LabeledText(_read_latin1(file_system, path), (parts[path][0],))


def read_reuters(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    split: Literal["train", "test"],
    *,
    storage_options: dict[str, Any] | None = None,
) -> Iterator[LabeledText]:
    """Yield the training or test articles of the ModApte split of Reuters-21578 from ``.sgm`` files."""
    for source in [paths] if isinstance(paths, str | PathLike) else paths:
        file_system, root = fsspec.url_to_fs(str(source), **(storage_options or {}))
        matches = sorted(file_system.glob(f"{root}/*.sgm") if file_system.isdir(root) else file_system.glob(root))
        if not matches:
            raise ValueError(f"no .sgm file at {source}: pass the folder of Reuters-21578")
        for path in matches:
            yield from _parse_articles(_read_latin1(file_system, path), path, split.upper())


def _read_latin1(file_system: fsspec.AbstractFileSystem, path: str) -> str:
    """Return the content of a file as Latin-1; raise a ValueError if it is too large."""
    with file_system.open(path, "rb") as file:
        data: bytes = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path} must have at most {MAX_FILE_BYTES:,} bytes: split the file")
    return data.decode("latin-1")


def _parse_articles(data: str, path: str, split: str) -> Iterator[LabeledText]:
    """Yield the articles of a file that belong to one part of the split."""
    n_articles = 0
    for match in _ARTICLE.finditer(data):
        n_articles += 1
        location = f"{path}, line {data.count(chr(10), 0, match.start()) + 1}"
        attributes = dict(_ATTRIBUTE.findall(match[1]))
        if not match[3].startswith("</"):
            raise ValueError(f"{location}: the article has no </REUTERS>, so the file is truncated: download it again")
        if not {"LEWISSPLIT", "TOPICS"} <= attributes.keys():
            raise ValueError(f"{location}: the article must have LEWISSPLIT and TOPICS, but has {' '.join(attributes)}")
        if attributes["LEWISSPLIT"] == split and attributes["TOPICS"] == "YES":
            topics = re.findall(r"<D>(.*?)</D>", _get_tag_content("TOPICS", match[2]))
            yield LabeledText(_extract_text(_get_tag_content("TEXT", match[2])), tuple(map(html.unescape, topics)))
    # Articles of both parts are counted: a file without any is of another format.
    if not n_articles:
        raise ValueError(f"{path} must have articles of Reuters-21578, <REUTERS ...> ... </REUTERS>, but has none")


def _extract_text(article: str) -> str:
    """Return title and body, or all text without tags if an article has neither."""
    # Articles of TYPE="BRIEF" have only a title, those of TYPE="UNPROC" neither.
    parts = [_get_tag_content(tag, article) for tag in ("TITLE", "BODY")]
    text = "\n".join(part for part in parts if part) or re.sub(r"</?[A-Z]+[^>]*>", " ", article)
    return html.unescape(text).strip()


def _get_tag_content(tag: str, data: str) -> str:
    match = re.search(rf"<{tag}\b[^>]*>(.*?)</{tag}>", data, re.DOTALL)
    return match[1] if match else ""
