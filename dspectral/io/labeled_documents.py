"""Read labeled texts from records, 20 Newsgroups and Reuters-21578."""

import html
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from os import PathLike
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

import fsspec
import numpy as np

from dspectral.parameters import check_option
from dspectral.paths import check_regular_file, expand_path
from dspectral.store.from_text.lines import MISSING
from dspectral.store.from_text.readers import read_records
from dspectral.store.location import is_local
from dspectral.types import is_missing

MAX_FILE_BYTES = 64 << 20
"""Maximum size of a file, in bytes."""
_ARTICLE = re.compile(r"<REUTERS\b([^>]*)>(.*?)(</REUTERS>|(?=<REUTERS\b)|\Z)", re.DOTALL)
_WRITTEN_LABEL = re.compile(r"""'([^'\\]*)'|"([^"\\]*)"|([+-]?[0-9.]+|True|False)""")
_WRITTEN_LIST = re.compile(rf"\[\s*(?:(?:{_WRITTEN_LABEL.pattern})(?:[,\s]+|(?=\])))*\]")
"""A list as pandas writes it into a cell: ``"['cat', 'animal']"``, or of an array ``"['cat' 'animal']"``."""
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class LabeledText(NamedTuple):
    """A document and its labels.

    Attributes
    ----------
    text : str
        Text of the document.
    labels : tuple of str
        Labels, possibly none.
    """

    text: str
    labels: tuple[str, ...]


def read_labeled_records(
    path: str | PathLike[str],
    *,
    text: Sequence[str] = ("text",),
    label: str = "label",
    missing: Literal["error", "empty", "skip"] = "empty",
    storage_options: dict[str, Any] | None = None,
) -> Iterator[LabeledText]:
    r"""Yield labeled texts from the records of JSON Lines, CSV, TSV or Parquet files.

    Parameters
    ----------
    path : str or path-like
        Local path, folder, pattern or fsspec URL, as for :func:`dspectral.build_store`.
    text : sequence of str, default=("text",)
        Fields of the text, joined by newlines; of several fields, null ones are empty.
    label : str, default="label"
        Field with the label: a string, a number or a boolean or a list of these, also one that pandas has written
        into a cell as ``"['tea', 'food']"``. Labels are
        equal across formats: 1, 1.0 and "1" become ``"1"``; true and "true" become ``"True"``. A document whose label
        is null, NaN or empty has no label.
    missing : {"error", "empty", "skip"}, default="empty"
        Treatment of a record whose texts are all null, as for :func:`dspectral.build_store`.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabeledText
        Document and labels of each record, in file order.

    Raises
    ------
    ValueError
        If the format is unknown, or a line is not a UTF-8 record with these fields; the message names the line.

    Examples
    --------
    >>> with fsspec.open("memory://two.jsonl", "w") as file:
    ...     _ = file.write('{"text": "hot tea", "label": ["tea", "food"]}\n{"text": "ice", "label": "food"}\n')
    >>> [document.labels for document in read_labeled_records("memory://two.jsonl")]
    [('tea', 'food'), ('food',)]
    """
    check_option("missing", missing, ("error", "empty", "skip"))
    text = (text,) if isinstance(text, str) else tuple(text)
    for location, record in read_records(path, (*text, label), storage_options or {}):
        try:
            parts = [_get_text(record, field) for field in text]
            if not any(part is not None for part in parts) and missing != "empty":
                if missing == "skip":
                    continue
                raise ValueError(f"field {text[0]!r} has no text; {MISSING}")  # noqa: TRY301
            labels = _get_labels(record, label)
        except ValueError as error:
            raise ValueError(f"{location}: {error}") from error
        yield LabeledText("\n".join(part or "" for part in parts), labels)


def label_name(value: object) -> str | None:
    """Return the normalized name of a label, or None for a missing label.

    >>> [label_name(value) for value in ("tea", 1, 1.0, "1.0", True, "true", "", float("nan"))]
    ['tea', '1', '1', '1', 'True', 'True', None, None]
    """
    if is_missing(value):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"label {value} must be a string, a finite number or a boolean")
    if not isinstance(value, str | int | float | Decimal):
        raise ValueError(f"label {value!r:.60} must be a string, a number or a boolean")  # noqa: TRY004
    name = re.sub(r"^([+-]?[0-9]+)\.0*$", r"\1", str(value))
    if not name.strip():
        return None
    return name.capitalize() if name.lower() in ("true", "false") else name


def _get_text(record: dict[str, Any], field: str) -> str | None:
    value = record[field]
    if not isinstance(value, str) and not is_missing(value):
        raise ValueError(f"field {field!r} is {value!r:.60}, but must be a string")
    return None if is_missing(value) else str(value)


def _get_labels(record: dict[str, Any], field: str) -> tuple[str, ...]:
    # A single label equals a list of one; an empty list means no labels.
    value = record[field]
    if isinstance(value, str) and _WRITTEN_LIST.fullmatch(value):
        value = [quoted[0] or quoted[1] or quoted[2] for quoted in _WRITTEN_LABEL.findall(value)]
    is_list = isinstance(value, list | tuple)
    names = [label_name(item) for item in (value if is_list else [value])]
    if is_list and None in names:
        raise ValueError(f"field {field!r} is {value!r:.60}, but a list of labels must have no missing ones")
    return tuple(name for name in names if name is not None)


def read_newsgroups(
    folder: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> Iterator[LabeledText]:
    """Yield the posts of 20 Newsgroups from one folder per group, sorted by path; hidden files are skipped.

    Parameters
    ----------
    folder : str or path-like
        Local path or fsspec URL of the folder of group folders. Posts are read as Latin-1, with their headers.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabeledText
        Post, with its group as the label.

    Raises
    ------
    ValueError
        If there is no post, or a file is not in a group folder.

    Examples
    --------
    >>> with fsspec.open("memory://posts/sci.space/1", "w") as file:
    ...     _ = file.write("Subject: orbits")
    >>> list(read_newsgroups("memory://posts"))
    [LabeledText(text='Subject: orbits', labels=('sci.space',))]
    """
    file_system, root = fsspec.url_to_fs(expand_path(folder), **(storage_options or {}))
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
    """Yield the training or test articles of the ModApte split of Reuters-21578 from ``.sgm`` files.

    Parameters
    ----------
    paths : str, path-like or sequence of these
        Files, glob patterns, or a folder with ``.sgm`` files.
    split : {"train", "test"}
        Part of the ModApte split: articles with this ``LEWISSPLIT`` and ``TOPICS="YES"``.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabeledText
        Title and body, or all text of an article without these, with its topics as labels, possibly none.

    Raises
    ------
    ValueError
        If a file is missing or has no article, or an article is truncated or has no split; the message names the line.

    Examples
    --------
    >>> article = '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN"><TOPICS><D>tea</D></TOPICS><TEXT>A &lt;B></TEXT></REUTERS>'
    >>> with fsspec.open("memory://reut2-000.sgm", "w") as file:
    ...     _ = file.write(article)
    >>> list(read_reuters("memory://reut2-000.sgm", "train"))
    [LabeledText(text='A <B>', labels=('tea',))]
    """
    check_option("split", split, ("train", "test"))
    for source in [paths] if isinstance(paths, str | PathLike) else paths:
        file_system, root = fsspec.url_to_fs(expand_path(source), **(storage_options or {}))
        matches = sorted(file_system.glob(f"{root}/*.sgm") if file_system.isdir(root) else file_system.glob(root))
        if not matches:
            raise ValueError(f"no .sgm file at {source}: pass the folder of Reuters-21578")
        for path in matches:
            yield from _parse_articles(_read_latin1(file_system, path), path, split.upper())


def _read_latin1(file_system: fsspec.AbstractFileSystem, path: str) -> str:
    """Return the content of a file as Latin-1; raise a ValueError if it is too large."""
    if is_local(file_system):
        check_regular_file(path)
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
