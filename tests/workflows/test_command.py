import re
import subprocess
import sys

import pytest

from dspectral.__main__ import list_programs, main
from tests.workflows.programs import NAMES, WORKFLOWS
from workflows._form import form


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("given", [["list"], []])
def test_the_command_lists_every_program_of_a_checkout(given, capsys):
    main(given)
    listed = capsys.readouterr().out
    for name, sentence in list_programs(WORKFLOWS).items():
        assert f"{name} " in listed
        assert sentence in listed
    assert len(list_programs(WORKFLOWS)) == len([name for name in NAMES if "." not in name]) > 9


@pytest.mark.parametrize("name", ["build-store", "build_store"])
def test_a_program_is_run_by_its_name_and_calls_itself_as_it_was_called(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--unit", "line"])
    assert caught.value.code == 2
    assert re.match("dspectral build-store: error: .*--text, --store", capsys.readouterr().err)
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: dspectral build-store ")
    assert form.parser("rivers", "").prog == "python -m workflows.rivers"  # the name was this call's alone


@pytest.mark.parametrize(("name", "hint"), [("dmeo", "demo"), ("lst", "list"), ("xyz", "`dspectral list`")])
def test_a_misspelled_program_is_answered_with_the_nearest(name, hint, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--out", "x"])
    assert caught.value.code == 2
    assert re.fullmatch(f"dspectral: error: .*{name}.*{hint}.*\n", capsys.readouterr().err)


def run_without_slow_imports(options, folder):
    """Run a command in a process that fails if it imports a slow package."""
    code = (
        "import sys; from dspectral.__main__ import main\n"
        f"try: main({options!r})\n"
        "finally: assert not {'numpy', 'dask', 'numba', 'sklearn', 'zarr'} & set(sys.modules), 'slow to import'"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["explore", "table.csv"], r"--field .*\(text, label\)"),
        (["explore", "none.txt"], r"none\.txt does not exist"),
        (["build-store", "--text", "table.csv", "--store", "s", "--missing", "no"], "--missing.*'no'"),
    ],
)
def test_options_are_checked_before_the_library_is_imported(given, message, tmp_path):
    (tmp_path / "table.csv").write_text("text,label\nhello,a\n", encoding="utf-8")
    done = run_without_slow_imports(given, tmp_path)
    assert done.returncode == 2
    assert re.search(message, done.stderr)


@pytest.mark.parametrize("name", [name.replace("_", "-") for name in NAMES if "." not in name])
def test_help_of_every_program_imports_nothing_slow(name, tmp_path):
    done = run_without_slow_imports([name, "--help"], tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: dspectral {name} ")
