"""The committed table of interoperation says what the tests in tests/interop declare, on two versions of Python."""

from tests.interop.rows import TABLE, declared_rows, read_tables, write_tables

AGAIN = "make interop PYTHON=... writes the column of that Python anew"


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, (outcomes, versions) = declared_rows(), read_tables()
    assert len(declared) == len(set(declared)) >= 20
    assert list(outcomes) == declared, AGAIN
    assert min(map(len, [*outcomes.values(), *versions.values()])) >= 2, AGAIN


def test_nothing_in_the_table_failed_or_was_left_out():
    outcomes, versions = read_tables()
    assert {outcome for cells in outcomes.values() for outcome in cells.values()} == {"passed"}, AGAIN
    assert "missing" not in {version for cells in versions.values() for version in cells.values()}, AGAIN


def test_the_table_is_written_as_it_was_read(tmp_path, monkeypatch):
    read, text = read_tables(), TABLE.read_text(encoding="utf-8")
    monkeypatch.setattr("tests.interop.rows.TABLE", tmp_path / "table.md")
    write_tables(*read)
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == text
