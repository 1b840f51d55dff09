"""The measures of the house, on a small tree made up for it."""

import doctest
import json
import re
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from tools import measure_house, mutants

ROOT = Path(__file__).parent.parent
SOURCES = {
    "__init__.py": '__all__ = ["AnchorHMM", "fold", "__version__"]\n',
    "types.py": '''
        from typing import Any, TypeAlias
        Rows: TypeAlias = Any
        """A block."""
        Fine: TypeAlias = list[Any]
    ''',
    "engine/__init__.py": '__all__ = ["fold"]\nfrom dspectral.engine.passes import fold\n',
    "engine/passes.py": '''
        from dask._task_spec import Task
        from dspectral.types import Rows

        def fold(rows: Rows, size: int, *others: "int | Any", name: str = "") -> Task:
            """Fold rows.

            At length.
            """
            # Because it is so.
            return Task(rows, size, others, name)  # and so
    ''',
    "linalg/__init__.py": "from lazy_loader import attach_stub\n",
    "linalg/__init__.pyi": "from .svd import svd as svd\n",
    "linalg/other.py": "",
    "linalg/svd.py": "svd = 1\n",
    "methods/__init__.py": "",
    "methods/hmm/__init__.py": "",
    "methods/hmm/base.py": """
        class Base:
            def __init__(self, n_states, *, random_state: int = 0) -> None:
                self.n_states = n_states

            def fit(self, X: "list[Any]", y: object = None) -> "Base":
                return self
    """,
    "methods/hmm/em.py": """
        from dspectral.engine import fold
        from dspectral.linalg import svd
        from dspectral.methods.hmm.base import Base

        class AnchorHMM(Base):
            pass

        def _hidden(x: int) -> int:
            return x
    """,
}


@pytest.fixture
def tree(tmp_path):
    for name, source in SOURCES.items():
        path = tmp_path / "dspectral" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source).lstrip())
    return tmp_path


def test_lines_of_functions_leave_docstrings_out(tree):
    house = measure_house.House(tree)
    assert sorted(house.function_lengths()) == [2, 2, 2, 3]
    assert house.n_lines() == sum(
        dedent(source).lstrip().count("\n") for name, source in SOURCES.items() if name.endswith(".py")
    )


def test_comments_are_counted_per_line_of_code(tree):
    house = measure_house.House(tree)
    assert measure_house.comments_and_code(house.modules["dspectral.engine.passes"]) == (2, 4)


def test_an_argument_may_be_anything_by_another_name_too(tree):
    # rows: Rows, others: "int | Any", n_states, y: object; not size, name, random_state, X and x
    assert measure_house.House(tree).arguments() == (9, 4)


def test_names_and_constructors_are_those_of_the_face(tree):
    house = measure_house.House(tree)
    assert house.public_names() == 6  # AnchorHMM, Base, Fine, Rows, fold, svd
    assert house.exported() == {
        "dspectral": ["AnchorHMM", "fold", "__version__"],
        "dspectral.engine": ["fold"],
        "dspectral.linalg": ["svd"],
    }
    assert house.constructors() == {"AnchorHMM": 2}


def test_the_files_of_an_estimator_are_found_through_imports(tree):
    found = measure_house.House(tree).files_of("AnchorHMM")
    assert [name.removeprefix("dspectral.") for name in found] == [
        "engine.passes",
        "linalg.svd",
        "methods.hmm.base",
        "methods.hmm.em",
        "types",
    ]


def test_circles_and_private_modules_of_dask_are_named(tree):
    house = measure_house.House(tree)
    assert house.circles() == []
    assert house.private_dask() == ["dspectral.engine.passes"]
    (tree / "dspectral" / "types.py").write_text("import dspectral.engine.passes\n")
    assert measure_house.House(tree).circles() == [["dspectral.engine.passes", "dspectral.types"]]


def test_imports_that_go_up_are_found_by_the_floors_of_the_tree(tree):
    assert measure_house.House(tree).upward() is None
    (tree / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "test_layers.py", tree / "tests")
    assert measure_house.House(tree).upward() == []
    (tree / "dspectral" / "types.py").write_text("Rows = 1\nimport dspectral.methods.hmm.em\n")
    assert measure_house.House(tree).upward() == ["dspectral.types, line 2: dspectral.methods.hmm.em"]


def test_the_table_is_printed_for_the_tree_asked_for(tree, capsys):
    measure_house.main([str(tree), "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert rows["constructor arguments / estimators"] == "2 / 1"
    assert rows["files to read for anchor HMM (its folder / methods / all)"] == "2 / 2 / 5"
    assert rows["files to read for TMPCA (its folder / methods / all)"] == "-"
    measure_house.main([str(tree)])
    assert "| circles | 0 |" in capsys.readouterr().out


def test_a_folder_without_the_package_is_named(tmp_path):
    with pytest.raises(SystemExit, match="holds no folder dspectral"):
        measure_house.main([str(tmp_path)])


def test_the_examples_of_the_tools_run():
    assert doctest.testmod(measure_house).failed == 0


def test_no_mutation_is_stale_and_each_has_tests_that_must_notice_it():
    known = mutants.mutations()
    assert len(known) >= 40
    assert len({one.name for one in known}) == len(known)
    assert [(one.name, why) for one in known if (why := mutants.stale(one))] == []
    assert all(one.tests and one.old != one.new for one in known)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"file": "dspectral/none.py"}, "there is no file dspectral/none.py"),
        ({"old": "no such text"}, "its old text is 0 times in"),
        ({"old": "e"}, r"its old text is \d+ times in"),
        ({"tests": ("tests/none.py::test_x",)}, "there is no file tests/none.py"),
    ],
)
def test_a_mutation_that_cannot_be_made_any_more_says_why(change, sentence):
    (first, *_) = mutants.mutations()
    assert re.search(sentence, mutants.stale(first._replace(**change)))


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
