"""The committed table of interoperation says what the tests in tests/interop declare."""

from tests.interop.rows import declared_rows, written_rows


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, written = declared_rows(), written_rows()
    assert len(declared) == len(set(declared)) >= 20
    assert written.keys() == set(declared), "make interop writes the table anew"


def test_nothing_in_the_table_failed_or_was_left_out():
    wrong = [row for row, outcome in written_rows().items() if outcome != "passed"]
    assert wrong == [], "make interop writes the table anew"
