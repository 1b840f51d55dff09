"""Text that every machine has: what the Python standard library says of itself."""

import ast
import math
import os
import re
import sysconfig
import tokenize
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dspectral.datasets.random_blocks import checked_seed
from dspectral.inputs.parameters import RandomState
from dspectral.paths import expand_path

EXCLUDED_FOLDERS = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"})
"""Folders of tests, and of what is installed beside the library."""
MIN_WORDS = 4
"""Number of words below which a text is left out."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class LabelledDocuments(NamedTuple):
    """Texts with one label each, and `unread`, the files that could not be parsed and gave no text."""

    texts: list[str]
    labels: list[str]
    unread: list[str]


class Intents(NamedTuple):
    """A classification task; no text occurs twice in it, letter case aside."""

    train_texts: list[str]
    train_labels: list[str]
    test_texts: list[str]
    test_labels: list[str]
    unlabelled_texts: list[str]


def standard_library_documents(root: Path | None = None) -> LabelledDocuments:
    """Read the docstrings and comments of the Python standard library.

    A document is one docstring, or one run of lines that hold nothing but a comment; white space is collapsed, and
    documents of fewer than four words are left out. Its label is the module or top-level package.

    Parameters
    ----------
    root : Path, optional
        Folder to read; by default the standard library of the running interpreter, without its tests.

    Returns
    -------
    LabelledDocuments
        Texts and labels in order of the files' names, and in each file its docstrings before its comments.

    Raises
    ------
    FileNotFoundError
        If the folder holds no Python source, as in an interpreter that comes with compiled files only.

    Examples
    --------
    >>> import json
    >>> documents = standard_library_documents(Path(json.__file__).parent)
    >>> "decoder" in documents.labels, documents.unread
    (True, [])
    """
    root = Path(expand_path(root or sysconfig.get_path("stdlib")))
    files = _sources(root)
    if not files:
        raise FileNotFoundError(f"no Python source in {root}, where this interpreter's standard library lies")
    result = LabelledDocuments([], [], [])
    for path in files:
        name = path.relative_to(root)
        try:
            file_texts = list(_documents(*_parse(path)))
        except (SyntaxError, ValueError):
            result.unread.append(name.as_posix())
            continue
        texts = [" ".join(text.split()) for text in file_texts]
        texts = [text for text in texts if len(re.findall(r"[^\W\d_]{2,}", text)) >= MIN_WORDS]
        result.texts.extend(texts)
        result.labels.extend([name.parts[0].removesuffix(".py")] * len(texts))
    return result


def standard_library_intents(
    n_labels: int = 20,
    *,
    test_share: float = 0.3,
    seed: RandomState = 0,
    documents: LabelledDocuments | None = None,
) -> Intents:
    """Make a classification task of the standard library.

    Parameters
    ----------
    n_labels : int, default=20
        Number of labels; the most frequent ones are kept.
    test_share : float, default=0.3
        Share of the texts of each label to test on, between 0 and 1; at least one text is on either side.
    seed : int, RandomState, Generator or None, default=0
        Seed of the split; None draws a new one.
    documents : LabelledDocuments, optional
        Documents to split, by default those of :func:`standard_library_documents`.

    Returns
    -------
    Intents
        The task. Of texts that occur several times one is kept; those under two labels are unlabeled.

    Raises
    ------
    ValueError
        If ``n_labels`` is below 2 or above the labels with two texts, or ``test_share`` not between 0 and 1.

    Examples
    --------
    >>> texts = ["a b c d", "A B c d", "e f g h", "one two three four", "five six seven eight", "x y z w"]
    >>> labels = ["letters", "letters", "letters", "numbers", "numbers", "rest"]
    >>> intents = standard_library_intents(2, documents=LabelledDocuments(texts, labels, []))
    >>> len(intents.train_texts), len(intents.test_texts), intents.unlabelled_texts
    (2, 2, ['x y z w'])
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share is {test_share}, but is a share between 0 and 1")
    labels_by_key, texts_by_key = _unique_texts(documents or standard_library_documents())
    counts = Counter(label for label in labels_by_key.values() if label is not None)
    kept = sorted(counts, key=lambda label: (-counts[label], label))[:n_labels]
    if n_labels < 2 or len(kept) < n_labels or counts[kept[-1]] < 2:
        usable = sum(count > 1 for count in counts.values())
        raise ValueError(f"n_labels is {n_labels}, but must be from 2 to {usable}, the labels with two texts")
    generator = np.random.default_rng(checked_seed(seed))
    intents = Intents([], [], [], [], [])
    for label in kept:  # each label is split by itself, so both sides have all labels
        keys = [key for key, text_label in labels_by_key.items() if text_label == label]
        order = generator.permutation(len(keys))
        # At least one text of each label is on either side.
        n_test = min(max(1, round(test_share * len(keys))), len(keys) - 1)
        for position, i in enumerate(order.tolist()):
            side = intents[2:4] if position < n_test else intents[:2]
            side[0].append(texts_by_key[keys[i]])
            side[1].append(label)
    chosen = set(kept)
    intents.unlabelled_texts.extend(
        texts_by_key[key] for key, label in labels_by_key.items() if label not in chosen
    )
    return intents


def _unique_texts(documents: LabelledDocuments) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the label of every distinct text, None if it has several, and the text as it first stood."""
    labels_by_key: dict[str, str | None] = {}
    texts_by_key: dict[str, str] = {}
    for text, label in zip(documents.texts, documents.labels, strict=True):
        # A text with several labels says nothing about any of them: it is kept, but without a label.
        key = text.casefold()
        texts_by_key.setdefault(key, text)
        labels_by_key[key] = label if labels_by_key.get(key, label) == label else None
    return labels_by_key, texts_by_key


def _sources(root: Path) -> list[Path]:
    """Return the library's files; file systems list folders in different orders, so paths are sorted."""
    file_texts: list[Path] = []
    for folder, subfolders, names in os.walk(root):
        # Not even looked through: installed packages may be ten times the library.
        subfolders[:] = set(subfolders) - EXCLUDED_FOLDERS
        file_texts.extend(Path(folder, name) for name in names if name.endswith(".py"))
    return sorted(file_texts)


def _parse(path: Path) -> tuple[str, ast.Module]:
    with tokenize.open(path) as file:  # heeds a declared encoding
        source = file.read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what their authors may be told of is not this reader's business
        return source, ast.parse(source)


def _documents(source: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node, clean=False) or ""
    yield from _comments(source.splitlines(), tree)


def _comments(lines: list[str], tree: ast.Module) -> Iterator[str]:
    """Yield the runs of comment lines: those that begin with a hash outside of any string."""
    texts = [line.strip() for line in lines]
    file_texts = [number for number, text in enumerate(texts, 1) if text.startswith("#")]
    # A line of a string may begin with a hash; all its lines but the first are left out.
    in_string: set[int] = set()
    for node in _iterate_nodes(tree, file_texts):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            in_string.update(range(node.lineno + 1, node.end_lineno + 1))
    comments = {
        number for number in file_texts if number not in in_string and not texts[number - 1].startswith("#!")
    }
    comment: list[str] = []
    for number, text in enumerate(texts, start=1):
        if number in comments:
            comment.append(text.lstrip("#"))
        elif comment:
            yield "\n".join(comment)
            comment = []
    yield "\n".join(comment)


def _iterate_nodes(tree: ast.AST, lines: list[int]) -> Iterator[ast.AST]:
    """Yield the nodes with one of these lines, given in ascending order, behind their first: few nodes have any."""
    stack = [tree]
    while stack:
        node = stack.pop()
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", math.inf)
        if bisect_right(lines, first) < bisect_right(lines, last):
            yield node
            stack.extend(ast.iter_child_nodes(node))
