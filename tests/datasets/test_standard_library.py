import ast
import asyncio
import os
import sysconfig
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from dspectral.datasets import standard_library_documents, standard_library_intents
from dspectral.datasets.standard_library import LabeledDocuments

MODULE = '''#!/usr/bin/env python3
"""A module that measures   the
depth of rivers."""

# Rivers change their depth
#   over the seasons.

BANNER = """
# this is not a comment at all
"""
TEXT = "a \\
# nor is this one here"


class River:
    """Water that flows between two banks."""

    def depth(self):
        """Too short."""
        return 3  # metres below the surface there
        # The last comment has no line after it'''


@pytest.fixture
def library(tmp_path):
    (tmp_path / "rivers.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "lakes").mkdir()
    (tmp_path / "lakes" / "__init__.py").write_text('"""Lakes are still rivers."""\n', encoding="utf-8")
    (tmp_path / "lakes" / "old.py").write_bytes(b'# coding: latin-1\n"""Fl\xfcsse und auch Seen hier"""\n')
    (tmp_path / "broken.py").write_text("print 'no longer a statement'\n", encoding="utf-8")
    (tmp_path / "bytes.py").write_bytes(b'"""not \xff utf-8"""')
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_rivers.py").write_text('"""Tests of all the rivers."""\n', encoding="utf-8")
    return tmp_path


def test_docstrings_and_comment_blocks_are_documents_of_their_package(library):
    documents = standard_library_documents(library)
    assert list(zip(documents.labels, documents.texts, strict=True)) == [
        ("lakes", "Lakes are still rivers."),
        ("lakes", "Flüsse und auch Seen hier"),
        ("rivers", "A module that measures the depth of rivers."),
        ("rivers", "Water that flows between two banks."),
        ("rivers", "Rivers change their depth over the seasons."),
        ("rivers", "The last comment has no line after it"),
    ]


def test_files_that_do_not_parse_are_reported(library):
    assert standard_library_documents(library).unread == ["broken.py", "bytes.py"]


@pytest.fixture
def documents():
    return standard_library_documents(Path(asyncio.__file__).parent)


def test_no_text_stands_twice_in_a_task_nor_is_one_lost(documents):
    intents = standard_library_intents(6, seed=4, documents=documents)
    everything = intents.train_texts + intents.test_texts + intents.unlabeled_texts
    assert len({text.casefold() for text in everything}) == len(everything)
    assert {text.casefold() for text in everything} == {text.casefold() for text in documents.texts}


def test_a_task_has_the_most_frequent_labels_on_both_sides(documents):
    intents = standard_library_intents(6, seed=4, documents=documents)
    train, test = Counter(intents.train_labels), Counter(intents.test_labels)
    assert len(train) == 6
    assert set(train) == set(test)
    assert all(abs(test[label] - 0.3 * (train[label] + test[label])) <= 0.5 for label in train)
    labels_of = defaultdict(set)
    for text, label in zip(documents.texts, documents.labels, strict=True):
        labels_of[text.casefold()].add(label)
    sizes = Counter(label for labels in labels_of.values() for label in labels if len(labels) == 1)
    assert sorted((train + test).values()) == sorted(sizes.values())[-6:]


def test_a_text_of_two_labels_is_unlabelled():
    texts = ["both", "Both", "a1", "a2", "b1", "b2"]
    intents = standard_library_intents(2, test_share=0.9, documents=LabeledDocuments(texts, list("abaabb"), []))
    assert intents.unlabeled_texts == ["both"]
    assert sorted(intents.train_labels) == sorted(intents.test_labels) == ["a", "b"]


@pytest.mark.parametrize("n_labels", [1, 3])
def test_too_few_or_too_many_labels_are_refused(n_labels):
    documents = LabeledDocuments(["a1", "a2", "b1", "b2", "c1"], list("aabbc"), [])
    with pytest.raises(ValueError, match=f"n_labels.*{n_labels}"):
        standard_library_intents(n_labels, documents=documents)


def test_statements_come_in_the_order_of_a_walk_over_the_whole_tree(tmp_path):
    inner = "{0}def a{1}():\n{0}    'is a function {1} of four words'\n"
    source = "try:\n" + inner.format("    ", 1) + "except OSError as error:\n" + inner.format("    ", 2)
    source += "else:\n    with open('x'):\n" + inner.format(" " * 8, 3) + "finally:\n" + inner.format("    ", 4)
    source += "match 1:\n    case 1:\n" + inner.format(" " * 8, 5)
    source += "class B:\n    'is a class of four words'\n" + inner.format("    ", 6)
    source += "x = [\n    # a comment inside of a list\n    '''\n# no comment of four words\n''',\n]\n"
    (tmp_path / "one.py").write_text(source)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    expected = [ast.get_docstring(node) for node in nodes]
    actual = standard_library_documents(tmp_path).texts
    assert actual == [*expected, "a comment inside of a list"]


def test_folders_of_tests_and_of_installed_packages_are_not_looked_through(tmp_path, monkeypatch):
    for folder in ("site-packages", "a/tests", "a"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "one.py").write_text(f"'a text that is in {folder}'\n")
    seen, scan = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.append(Path(path).name) or scan(path))
    assert standard_library_documents(tmp_path).texts == ["a text that is in a"]
    assert not {"site-packages", "tests"} & set(seen)


def test_documents_of_the_standard_library_are_read_from_the_cache_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "a.py").write_text('"""One two three four five."""')
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "library"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    documents = standard_library_documents()
    assert documents.texts == ["One two three four five."]
    (tmp_path / "library" / "a.py").unlink()
    assert standard_library_documents() == documents
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "library" / "a.py"))
    (tmp_path / "library" / "a.py").write_text('"""Six seven eight nine ten."""')  # no folder
    assert standard_library_documents().texts == ["Six seven eight nine ten."]
