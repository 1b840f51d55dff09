"""The committed table of interoperation says what the tests in tests/interop declare, on two versions of Python."""

from tests.interop.rows import declared_rows, written_rows

AGAIN = "make interop PYTHON=... writes the rows of that Python anew"


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, written = declared_rows(), written_rows()
    assert len(declared) == len(set(declared)) >= 20
    assert [python for python, rows in written.items() if rows.keys() != set(declared)] == [], AGAIN
    assert len(written) >= 2, AGAIN


def test_nothing_in_the_table_failed_or_was_left_out():
    rows = [one for of_python in written_rows().values() for one in of_python.items()]
    assert [row for row, outcome in rows if outcome != "passed"] == [], AGAIN
