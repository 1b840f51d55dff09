"""Docstrings and comments of the Python standard library, as a corpus available on every machine."""

import ast
import json
import math
import os
import re
import sys
import sysconfig
import tokenize
import warnings
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dspectral.parameters import RandomState, resolve_seed
from dspectral.paths import expand_path

EXCLUDED_FOLDERS = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"})
"""Folders of tests and of installed packages."""
MIN_WORDS = 4
"""Minimum number of words of a text."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class LabeledDocuments(NamedTuple):
    """Texts with one label each, and `unread`, the files that could not be parsed."""

    texts: list[str]
    labels: list[str]
    unread: list[str]


class Intents(NamedTuple):
    """Classification task; texts are distinct, ignoring case."""

    train_texts: list[str]
    train_labels: list[str]
    test_texts: list[str]
    test_labels: list[str]
    unlabeled_texts: list[str]


def standard_library_documents(root: Path | None = None) -> LabeledDocuments:
    """Read the docstrings and comments of the Python standard library.

    A document is one docstring, or one block of consecutive comment lines, with white space collapsed. Documents of
    fewer than four words are skipped. The label is the module or top-level package.

    Parameters
    ----------
    root : Path, optional
        Folder to read; by default the standard library of the running interpreter, without its tests, whose documents
        are kept in the user's cache folder.

    Returns
    -------
    LabeledDocuments
        Texts and labels sorted by file name; in each file docstrings precede comments.

    Raises
    ------
    FileNotFoundError
        If the folder has no Python source, for example in an interpreter with compiled files only.

    Examples
    --------
    >>> import json
    >>> documents = standard_library_documents(Path(json.__file__).parent)
    >>> "decoder" in documents.labels, documents.unread
    (True, [])
    """
    if root is None:
        return _read_standard_library()
    root = Path(expand_path(root))
    files = _list_sources(root)
    if not files:
        raise FileNotFoundError(f"root={root} has no Python source: pass the root of a source distribution of Python")
    result = LabeledDocuments([], [], [])
    for path in files:
        name = path.relative_to(root)
        try:
            file_texts = list(_read_documents(*_parse(path)))
        except (SyntaxError, ValueError):
            result.unread.append(name.as_posix())
            continue
        texts = [" ".join(text.split()) for text in file_texts]
        texts = [text for text in texts if len(re.findall(r"[^\W\d_]{2,}", text)) >= MIN_WORDS]
        result.texts.extend(texts)
        result.labels.extend([name.parts[0].removesuffix(".py")] * len(texts))
    return result


def _read_standard_library() -> LabeledDocuments:
    """Return the documents of the running interpreter, which take seconds to parse, from the user's cache folder."""
    root = Path(sysconfig.get_path("stdlib"))
    key = f"{sys.version} {root} {Path(__file__).stat().st_mtime_ns}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dspectral"
    path = cache / f"standard-library-{zlib.crc32(key.encode()):08x}.json"
    with suppress(OSError):
        return LabeledDocuments(*json.loads(path.read_text(encoding="utf-8")))
    documents = standard_library_documents(root)
    with suppress(OSError):  # a home without room or permission: the next process parses again
        cache.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(documents), encoding="utf-8")
        temporary.replace(path)
    return documents


def standard_library_intents(
    n_labels: int = 20,
    *,
    test_share: float = 0.3,
    seed: RandomState = 0,
    documents: LabeledDocuments | None = None,
) -> Intents:
    """Make a classification task from the standard library.

    Parameters
    ----------
    n_labels : int, default=20
        Number of labels; the most frequent ones are used.
    test_share : float, default=0.3
        Proportion of test texts of each label, between 0 and 1; each label has at least one training and test text.
    seed : int, RandomState, Generator or None, default=0
        Seed of the split; None draws a new one.
    documents : LabeledDocuments, optional
        Documents to split; by default those of :func:`standard_library_documents`.

    Returns
    -------
    Intents
        Classification task. Duplicate texts are removed; texts with several labels are unlabeled.

    Raises
    ------
    ValueError
        If ``n_labels`` is below 2 or above the number of labels with two texts, or ``test_share`` is not between 0
        and 1.

    Examples
    --------
    >>> texts = ["a b c d", "A B c d", "e f g h", "one two three four", "five six seven eight", "x y z w"]
    >>> labels = ["letters", "letters", "letters", "numbers", "numbers", "rest"]
    >>> intents = standard_library_intents(2, documents=LabeledDocuments(texts, labels, []))
    >>> len(intents.train_texts), len(intents.test_texts), intents.unlabeled_texts
    (2, 2, ['x y z w'])
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share={test_share} must be between 0 and 1")
    labels_by_key, texts_by_key = _find_unique_texts(documents or standard_library_documents())
    counts = Counter(label for label in labels_by_key.values() if label is not None)
    frequent_labels = sorted(counts, key=lambda label: (-counts[label], label))[:n_labels]
    if n_labels < 2 or len(frequent_labels) < n_labels or counts[frequent_labels[-1]] < 2:
        usable = sum(count > 1 for count in counts.values())
        raise ValueError(f"n_labels={n_labels} must be from 2 to {usable}, the number of labels with two texts")
    generator = np.random.default_rng(resolve_seed(seed, "seed"))
    intents = Intents([], [], [], [], [])
    for label in frequent_labels:  # stratified split
        keys = [key for key, text_label in labels_by_key.items() if text_label == label]
        order = generator.permutation(len(keys))
        # Each label has at least one training and one test text.
        n_test = min(max(1, round(test_share * len(keys))), len(keys) - 1)
        for position, i in enumerate(order.tolist()):
            side = intents[2:4] if position < n_test else intents[:2]
            side[0].append(texts_by_key[keys[i]])
            side[1].append(label)
    label_set = set(frequent_labels)
    intents.unlabeled_texts.extend(texts_by_key[key] for key, label in labels_by_key.items() if label not in label_set)
    return intents


def _find_unique_texts(documents: LabeledDocuments) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the label of each distinct text (None for several labels), and its first spelling."""
    labels_by_key: dict[str, str | None] = {}
    texts_by_key: dict[str, str] = {}
    for text, label in zip(documents.texts, documents.labels, strict=True):
        # A text with several labels is kept without a label.
        key = text.casefold()
        texts_by_key.setdefault(key, text)
        labels_by_key[key] = label if labels_by_key.get(key, label) == label else None
    return labels_by_key, texts_by_key


def _list_sources(root: Path) -> list[Path]:
    """Return the source files, sorted, since file systems list folders in different orders."""
    file_texts: list[Path] = []
    for folder, subfolders, names in os.walk(root):
        # Installed packages may be ten times as large as the library, and are not listed.
        subfolders[:] = set(subfolders) - EXCLUDED_FOLDERS
        file_texts.extend(Path(folder, name) for name in names if name.endswith(".py"))
    return sorted(file_texts)


def _parse(path: Path) -> tuple[str, ast.Module]:
    with tokenize.open(path) as file:  # respects a declared encoding
        source = file.read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings concern the authors of the sources
        return source, ast.parse(source)


def _read_documents(source: str, tree: ast.Module) -> Iterator[str]:
    # Breadth first, as ast.walk, but over statements alone, since no expression has a docstring.
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node, clean=False) or ""
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            nodes += getattr(node, name, ())
    yield from _iter_comments(source.splitlines(), tree)


def _iter_comments(lines: list[str], tree: ast.Module) -> Iterator[str]:
    """Yield blocks of consecutive comment lines: lines that start with ``#`` outside of strings."""
    texts = [line.strip() for line in lines]
    file_texts = [number for number, text in enumerate(texts, 1) if text.startswith("#")]
    # Lines of a multi-line string after the first may start with "#": they are excluded.
    in_string: set[int] = set()
    for node in _iterate_nodes(tree, file_texts):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            in_string.update(range(node.lineno + 1, node.end_lineno + 1))
    comments = {number for number in file_texts if number not in in_string and not texts[number - 1].startswith("#!")}
    comment: list[str] = []
    for number, text in enumerate(texts, start=1):
        if number in comments:
            comment.append(text.lstrip("#"))
        elif comment:
            yield "\n".join(comment)
            comment = []
    yield "\n".join(comment)


def _iterate_nodes(tree: ast.AST, lines: list[int]) -> Iterator[ast.AST]:
    """Yield the nodes that span one of the sorted ``lines`` after their first line."""
    stack = [tree]
    while stack:
        node = stack.pop()
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", math.inf)
        if bisect_right(lines, first) < bisect_right(lines, last):
            yield node
            stack.extend(ast.iter_child_nodes(node))
