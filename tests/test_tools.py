"""The tools count tokens and importers, and find mutations that are stale."""

import re
from pathlib import Path

import pytest

from tools import measure_house, mutants

ROOT = Path(__file__).parent.parent
SOURCES = {
    "dspectral/__init__.py": "",
    "dspectral/engine/__init__.py": "from lazy_loader import attach_stub\n",
    "dspectral/engine/__init__.pyi": "from .passes import summarize as summarize\n",
    "dspectral/engine/run.py": "from dspectral import types\n\nsummarize = 1\n",
    "dspectral/types.py": "",
    "dspectral/methods/one.py": "from dspectral import engine\nfrom dspectral.types import Rows\nengine.summarize()\n",
    "dspectral/methods/two.py": "from dspectral.engine import summarize\nfrom dspectral.methods.one import x\n",
}


def test_a_file_with_one_importer_is_found_through_names_that_packages_offer():
    assert measure_house.single_importers(SOURCES) == {"dspectral.methods.one": "dspectral.methods.two"}


def test_tokens_are_counted_without_docstrings_comments_and_layout():
    text = '"""Text."""\nx = (\n    1,  # one\n)\n\n\ndef f():\n    """Text."""\n    return "text"\n'
    assert measure_house.n_tokens(text) == 13


def test_no_mutation_is_stale_and_each_has_tests_that_must_notice_it():
    known = mutants.mutations()
    assert len(known) >= 40
    assert len({one.name for one in known}) == len(known)
    assert [(one.name, why) for one in known if (why := mutants.stale(one))] == []
    assert all(one.tests and one.old != one.new for one in known)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"file": "dspectral/none.py"}, "dspectral/none.py"),
        ({"old": "no such text"}, "0 times"),
        ({"old": "e"}, r"\d+ times"),
        ({"tests": ("tests/none.py::test_x",)}, "tests/none.py"),
    ],
)
def test_a_mutation_that_cannot_be_made_any_more_says_why(change, sentence):
    (first, *_) = mutants.mutations()
    assert re.search(sentence, mutants.stale(first._replace(**change)))


def test_drawn_mutations_are_one_wrong_place_each_and_have_the_tests_of_their_room(tmp_path):
    for path in ("dspectral/linalg", "dspectral/methods/lsi/deep", "tests/linalg", "tests/methods/lsi"):
        (tmp_path / path).mkdir(parents=True)
    source = "ü = -1\nif ü < 2:\n    print(ü + 3, True)\n"
    for path in ("linalg/one", "methods/lsi/deep/two"):
        (tmp_path / f"dspectral/{path}.py").write_text(source, encoding="utf-8")
    for path in ("test_contracts", "linalg/test_all", "linalg/test_one", "methods/lsi/test_lsi"):
        (tmp_path / f"tests/{path}.py").write_text("one = 1", encoding="utf-8")
    found = mutants.drawn(200, 0, tmp_path)
    swaps = [
        ("-1", "(1)"),
        ("1", "(2)"),
        ("ü = -1", "pass"),
        ("ü < 2", "(ü <= 2)"),
        ("2", "(3)"),
        ("ü + 3", "(ü - 3)"),
    ]
    swaps += [("3", "(4)"), ("True", "(False)"), ("print(ü + 3, True)", "pass")]
    assert {one.new for one in found} == {source.replace(old, new, 1) for old, new in swaps}
    of_linalg = ("dspectral/linalg/one.py", "tests/linalg/test_one.py", "tests/linalg/test_all.py")
    of_lsi = ("dspectral/methods/lsi/deep/two.py", "tests/methods/lsi/test_lsi.py", "tests/test_contracts.py")
    assert {one.tests for one in found} == {of_linalg, of_lsi}


def test_a_mutation_is_killed_by_tests_that_notice_it_and_survives_others(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # three processes, none of which needs a plugin
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_doubling.py").write_text(
        "from doubling import double\n\ndef test_it():\n    assert double(2) == 4\n"
    )
    wrong = mutants.Mutation("three for two", "doubling.py", "2 * x", "3 * x", ("test_doubling.py",))
    unseen = wrong._replace(new="x * 2")
    broken = wrong._replace(tests=("test_doubling.py::test_none",))
    found = [mutants.tried(one, tmp_path).word for one in (wrong, unseen, broken)]
    assert found == ["killed", "SURVIVED", "BROKEN"]
    assert (tmp_path / "doubling.py").read_text() == "def double(x):\n    return 2 * x\n"
