"""Texts and their labels, one after the other: records, and 20 Newsgroups and Reuters-21578 as they are packed."""

import html
import json
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

import fsspec

from dspectral.engine.fits import expand_path
from dspectral.engine.keeping import refuse_endless
from dspectral.store.from_text.readers import numbered_lines
from dspectral.store.location import is_local

LONGEST_FILE = 64 << 20
"""Most bytes of a post or of a file of articles."""
_ARTICLE = re.compile(r"<REUTERS\b([^>]*)>(.*?)(</REUTERS>|(?=<REUTERS\b)|\Z)", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class LabelledText(NamedTuple):
    """A document and its labels.

    Attributes
    ----------
    text : str
        The text.
    labels : tuple of str
        Its labels: none, one or several.
    """

    text: str
    labels: tuple[str, ...]


def read_labelled_records(
    path: str | PathLike[str],
    *,
    text: Sequence[str] = ("text",),
    label: str = "label",
    storage_options: dict[str, Any] | None = None,
) -> Iterator[LabelledText]:
    r"""Read records of jsonl or TSV files.

    Parameters
    ----------
    path : str or path-like
        Local path or fsspec URL of a .jsonl or .tsv file, also .gz, .bz2 or .zst.
    text : sequence of str, default=("text",)
        Fields that are the text, one line under the other; one that is null counts as empty.
    label : str, default="label"
        Field with the label: a string, or, in jsonl, a list of strings.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabelledText
        One document for each record, in the order of the file.

    Raises
    ------
    ValueError
        If the ending is unknown, or a line is no record with these fields in UTF-8; it is named.

    Examples
    --------
    >>> with fsspec.open("memory://two.jsonl", "w") as file:
    ...     _ = file.write('{"text": "hot tea", "label": ["tea", "food"]}\n{"text": "ice", "label": "food"}\n')
    >>> [document.labels for document in read_labelled_records("memory://two.jsonl")]
    [('tea', 'food'), ('food',)]
    """
    path, text = expand_path(path), (text,) if isinstance(text, str) else text
    name = re.sub(r"\.(gz|bz2|zst)$", "", path.lower())
    if not name.endswith((".jsonl", ".tsv")):
        raise ValueError(f"{path} ends in neither .jsonl nor .tsv (and .gz, .bz2 or .zst)")
    lines = numbered_lines(path, storage_options)
    header = next(lines, (1, ""))[1].split("\t") if name.endswith(".tsv") else None
    for number, line in lines:
        try:
            record = _parse_json(line) if header is None else _split_row(line, header)
            yield _document_of(record, text, label)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from error


def read_newsgroups(
    folder: str | PathLike[str], *, storage_options: dict[str, Any] | None = None
) -> Iterator[LabelledText]:
    """Read posts that lie in a folder for each group, as 20 Newsgroups is packed, in the order of their names.

    Parameters
    ----------
    folder : str or path-like
        Local path or fsspec URL of a folder of folders; a post is a file, read as Latin-1 with its header.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabelledText
        A post, with its group as the label.

    Raises
    ------
    ValueError
        If there is no post, or a file lies beside the groups.

    Examples
    --------
    >>> with fsspec.open("memory://posts/sci.space/1", "w") as file:
    ...     _ = file.write("Subject: orbits")
    >>> list(read_newsgroups("memory://posts"))
    [LabelledText(text='Subject: orbits', labels=('sci.space',))]
    """
    system, root = fsspec.url_to_fs(expand_path(folder), **(storage_options or {}))
    paths = sorted(system.find(root))
    if not paths:
        raise ValueError(f"no post in {folder}: expected a folder for each group, with a file for each post")
    # Latin-1 gives every byte a letter: posts of 1993 say their encoding, if at all, in ways of their own.
    for path in paths:
        inside = PurePosixPath(path).parts[len(PurePosixPath(root).parts) :]
        if len(inside) != 2:
            raise ValueError(f"{path} is not a post of a group: expected {folder}/GROUP/POST")
        yield LabelledText(_content(system, path), (inside[0],))


def read_reuters(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    split: Literal["train", "test"],
    *,
    storage_options: dict[str, Any] | None = None,
) -> Iterator[LabelledText]:
    """Read one side of the ModApte split of Reuters-21578 from its ``.sgm`` files.

    Parameters
    ----------
    paths : str, path-like or sequence of these
        Files, globs, or a folder with ``.sgm`` files.
    split : {"train", "test"}
        Side of the ModApte split: articles of this ``LEWISSPLIT`` that say ``TOPICS="YES"``.
    storage_options : dict, optional
        Options of the file system.

    Yields
    ------
    LabelledText
        An article: title and body, or whatever text there is, with its topics as labels, which may be none.

    Raises
    ------
    ValueError
        If there is no file, or an article is missing, cut short or without its split; the line is named.

    Examples
    --------
    >>> article = '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN"><TOPICS><D>tea</D></TOPICS><TEXT>A &lt;B></TEXT></REUTERS>'
    >>> with fsspec.open("memory://reut2-000.sgm", "w") as file:
    ...     _ = file.write(article)
    >>> list(read_reuters("memory://reut2-000.sgm", "train"))
    [LabelledText(text='A <B>', labels=('tea',))]
    """
    if split not in ("train", "test"):
        raise ValueError(f"split is {split!r}, but must be 'train' or 'test'")
    for source in [paths] if isinstance(paths, str | PathLike) else paths:
        system, root = fsspec.url_to_fs(expand_path(source), **(storage_options or {}))
        found = sorted(system.glob(f"{root}/*.sgm") if system.isdir(root) else system.glob(root))
        if not found:
            raise ValueError(f"no .sgm file at {source}")
        for path in found:
            yield from _articles(_content(system, path), path, split.upper())


def _content(system: fsspec.AbstractFileSystem, path: str) -> str:
    """Return a file as Latin-1, if it is not too long."""
    if is_local(system):
        refuse_endless(path)
    with system.open(path, "rb") as file:
        data: bytes = file.read(LONGEST_FILE + 1)
    if len(data) > LONGEST_FILE:
        raise ValueError(f"{path}: a file of more than {LONGEST_FILE:,} bytes, the longest that is read")
    return data.decode("latin-1")


def _parse_json(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from error
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, not {line[:60]}")  # noqa: TRY004  the file is wrong, not a caller
    return record


def _split_row(line: str, header: list[str]) -> dict[str, Any]:
    fields = line.split("\t")
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} column(s), but the header has {len(header)}")
    return dict(zip(header, fields, strict=True))


def _document_of(record: dict[str, Any], text: Sequence[str], label: str) -> LabelledText:
    missing = [field for field in (*text, label) if field not in record]
    if missing:
        raise ValueError(f"no field {missing[0]!r}, but {', '.join(record)}")
    parts = [record[field] or "" for field in text]  # null counts as empty
    for field, part in zip(text, parts, strict=True):
        if not isinstance(part, str):
            raise ValueError(f"field {field!r} holds {json.dumps(part)[:60]}, not a string")  # noqa: TRY004
    # One label and a list of one are the same; a list may be empty, a text without labels.
    labels = record[label] if isinstance(record[label], list) else [record[label]]
    if not all(isinstance(one, str) for one in labels):
        raise ValueError(
            f"field {label!r} holds {json.dumps(record[label])[:60]}, not a string or a list of strings"
        )
    return LabelledText("\n".join(parts), tuple(labels))


def _articles(data: str, path: str, split: str) -> Iterator[LabelledText]:
    """Yield the articles of a file on one side of the split; without a closing tag the file is damaged."""
    n_found = 0
    for found in _ARTICLE.finditer(data):
        n_found += 1
        where = f"{path}, line {data.count(chr(10), 0, found.start()) + 1}"
        attributes = dict(_ATTRIBUTE.findall(found[1]))
        if not found[3].startswith("</"):
            raise ValueError(f"{where}: the article that begins here is cut short: it has no </REUTERS>")
        if not {"LEWISSPLIT", "TOPICS"} <= attributes.keys():
            raise ValueError(
                f"{where}: the article does not say LEWISSPLIT and TOPICS, but {' '.join(attributes)}"
            )
        if attributes["LEWISSPLIT"] == split and attributes["TOPICS"] == "YES":
            topics = re.findall(r"<D>(.*?)</D>", _inside("TOPICS", found[2]))
            yield LabelledText(_text(_inside("TEXT", found[2])), tuple(map(html.unescape, topics)))
    # An article of the other side was found, too: only a file of another kind holds none at all.
    if not n_found:
        raise ValueError(f"{path} holds no article of Reuters-21578: expected <REUTERS ...> ... </REUTERS>")


def _text(inside: str) -> str:
    """Return title and body; all there is, without tags, where an article has neither."""
    # Articles of TYPE="BRIEF" have a title alone, those of TYPE="UNPROC" neither: their text lies beside the tags.
    parts = [_inside(tag, inside) for tag in ("TITLE", "BODY")]
    text = "\n".join(part for part in parts if part) or re.sub(r"</?[A-Z]+[^>]*>", " ", inside)
    return html.unescape(text).strip()


def _inside(tag: str, data: str) -> str:
    found = re.search(rf"<{tag}\b[^>]*>(.*?)</{tag}>", data, re.DOTALL)
    return found[1] if found else ""
