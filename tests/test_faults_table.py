"""The committed table of faults says what the tests in tests/cluster declare."""

from tests.cluster.rows import declared_rows, written_rows


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, written = declared_rows(), written_rows()
    assert len(declared) == len(set(declared)) >= 75
    assert written.keys() == set(declared), "make test-cluster writes the table anew"


def test_nothing_was_lost_in_any_row():
    wrong = [row for row, seen in written_rows().items() if seen.lost != "nothing"]
    assert wrong == [], "make test-cluster writes the table anew"
