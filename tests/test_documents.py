"""The code blocks of the project's pages run as they stand, and print what the page says; links and commands hold."""

import re
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest

from dspectral import datasets
from dspectral.datasets import standard_library
from tests import forked
from tests.schedulers import forked_workers
from tools import pages

ROOT = Path(__file__).parent.parent
COMMAND = re.compile(
    r"^(?:\S*python -m (?P<module>workflows\.[a-z][\w.]*)|(?:\S*/)?dspectral (?P<name>[a-z][\w-]*))(?P<rest>.*)"
)


@pytest.fixture(scope="module", autouse=True)
def standard_library_read_once():
    """Most pages begin with the documents of the standard library, which take seconds to read."""
    once = cache(standard_library.standard_library_documents)
    with pytest.MonkeyPatch.context() as patch:
        for place in (datasets, standard_library):
            patch.setattr(place, "standard_library_documents", once)
        yield


@pytest.fixture
def _programs_forked(monkeypatch):
    """Let programs that a page writes and starts run in forked processes."""

    def run(command, **how):
        return (forked.run if command[0] == sys.executable else usual)(command, **how)

    usual = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.usefixtures("_programs_forked")
@pytest.mark.parametrize("name", pages.pages())
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(name, tmp_path):
    text = text_of(name)
    # The texts of another Python's library are others, and so are the words that the page shows. Linux distributions
    # have tkinter and idlelib in packages of their own.
    is_same = sys.version_info[:2] == (3, 11) and find_spec("tkinter") and find_spec("idlelib")
    others = "standard_library_documents" in text and not is_same
    with forked_workers():
        for block, printed in pages.run(name, text, tmp_path):
            shown = pages.Ran(block, printed).as_shown or others
            assert shown, f"{name}, line {block.line}: shown\n{block.output}printed\n{printed}"
    if missing := sorted({package for block in pages.blocks(text) for package in block.missing}):
        pytest.skip(f"all but the blocks that need {', '.join(missing)} ran")


@pytest.mark.parametrize("name", [*pages.pages(), "CHANGELOG.md"])
def test_what_a_page_links_to_is_there(name):
    actual = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text_of(name))
    actual += re.findall(r'(?:src|href)="(?!https?:|#)([^"#]+)"', text_of(name))
    staged = (ROOT / "docs" / "notebooks", ROOT / "docs" / "api" / "packages")
    links = [link for link in actual if not any(at in ((ROOT / name).parent / link).parents for at in staged)]
    assert [link for link in links if not ((ROOT / name).parent / link).exists()] == []


def commands(text):
    """The commands in the blocks for shells and in inline code: module and options."""
    shells = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    joined = [line for block in shells for line in block.replace("\\\n", " ").splitlines()]
    for piece in joined + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        for found in COMMAND.finditer(piece.partition("#")[0]):
            module = found["module"] or f"workflows.{found['name'].replace('-', '_')}"
            yield module, tuple(re.findall(r"(?<!\S)--[a-z][\w-]*", found["rest"]))


@cache
def help_of(module):
    with redirect_stdout(StringIO()) as printed, pytest.raises(SystemExit):
        import_module(module).main(["--help"])
    return printed.getvalue()


@pytest.mark.parametrize("name", pages.pages())
def test_the_commands_of_a_page_are_programs_with_these_options(name):
    actual = {(module, option) for module, options in commands(text_of(name)) for option in ("", *options)}
    known = {(module, option) for module, option in actual if module not in ("workflows.list", "workflows.warm")}
    assert sorted({module for module, _ in known if find_spec(module) is None}) == []
    missing = [(module, option) for module, option in sorted(known) if not re.search(rf"{option}\b", help_of(module))]
    assert missing == []
