import argparse
import re
import shlex

import pytest

from tests.workflows.programs import NAMES, parser_of
from workflows._form import form


@pytest.fixture(params=NAMES)
def parser(request, monkeypatch):
    return parser_of(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10000")  # the help breaks lines at dashes, too


def with_values(parser):
    """The options that take a value and need not be given."""
    return [one for one in parser._actions if one.option_strings and one.nargs != 0 and not one.required]


def help_of(parser, action):
    """What the help prints of one option, on one line."""
    formatter = parser._get_formatter()
    formatter.add_argument(action)
    return " ".join(formatter.format_help().split())


def test_every_option_states_its_default_and_no_other(parser):
    for action in with_values(parser):
        shown = help_of(parser, action)
        stated = re.findall(r"\(default: (.*?)\)(?= |$)", shown)
        assert len(stated) == 1, f"{parser.prog}: {shown}"
        if action.default not in (None, [], ()):
            values = action.default if isinstance(action.default, (list, tuple)) else [action.default]
            # What is stated reads as the default when it is typed; 1 may be a count, and 1.0 a share.
            read = [parser._get_value(action, text) for text in shlex.split(stated[0])]
            assert list(map(repr, read)) == list(map(repr, values)), f"{parser.prog}: {shown}"
        rest = shown.replace(f"(default: {stated[0]})", "")
        assert not re.search(r"\(([\d. ]+|all)\)", rest), f"{parser.prog}: {shown}"


def test_what_is_typed_wrongly_is_refused_in_the_words_of_options(parser, capsys):
    for action in with_values(parser):
        if action.type in (None, form.local_path) or action.dest == "name":
            continue
        with pytest.raises(argparse.ArgumentError, match=r"'l=ts'") as caught:
            parser._get_values(action, ["l=ts"])
        assert "invalid" not in str(caught.value)  # argparse would name a function


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--memory-limit", "lots"], "--memory-limit.*'lots'.*2GB"),
        (["--memory-limit", "2"], "--memory-limit.*'2'"),
        (["--memory-limit", "250MB"], "--memory-limit.*'250MB'"),
        (["--seed", "x"], "--seed.*'x'"),
        (["--wrokers", "2"], "--wrokers.*--workers"),
        (["--zzz"], "--zzz"),
        (["more"], "more"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_that_says_where_to_read_on(given, said, capsys):
    with pytest.raises(SystemExit) as caught:
        form.parser("rivers", "").parse_args(given)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert re.match(f"python -m workflows.rivers: error: .*{said}", error)
    assert "`python -m workflows.rivers --help`" in error
    assert error.count("\n") == 1
