"""Mutations are found when stale, killed and survived."""

from tools import mutants


def test_no_mutation_is_stale_and_each_has_tests_that_must_notice_it():
    known = mutants.mutations()
    assert len(known) >= 40
    assert len({one.name for one in known}) == len(known)
    assert [(one.name, why) for one in known if (why := mutants.stale(one))] == []
    assert all(one.tests and one.old != one.new for one in known)


def test_a_mutation_is_killed_by_tests_that_notice_it_and_survives_others(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # three processes, none of which needs a plugin
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_doubling.py").write_text(
        "from doubling import double\n\ndef test_it():\n    assert double(2) == 4\n"
    )
    wrong = mutants.Mutation("three for two", "doubling.py", "2 * x", "3 * x", ("test_doubling.py",))
    unseen = wrong._replace(new="x * 2")
    broken = wrong._replace(tests=("test_doubling.py::test_none",))
    actual = [mutants.tried(one, tmp_path).word for one in (wrong, unseen, broken)]
    assert actual == ["killed", "SURVIVED", "BROKEN"]
    assert (tmp_path / "doubling.py").read_text() == "def double(x):\n    return 2 * x\n"
