"""The committed table of faults says what the tests in tests/cluster declare."""

import re

from tests.cluster.rows import FIVE, declared_rows, written_rows


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, written = declared_rows(), written_rows()
    assert len(declared) == len(set(declared)) >= 80
    assert written.keys() == set(declared), "make test-cluster writes the table anew"


def test_nothing_was_lost_in_any_row():
    wrong = [row for row, seen in written_rows().items() if seen.lost != "nothing"]
    assert wrong == [], "make test-cluster writes the table anew"


def test_every_row_says_what_was_done_again_and_when_it_was_told():
    for row, seen in written_rows().items():
        assert seen.redone, row
        assert seen.told, row
        if re.fullmatch(r"[\d.]+", seen.told):
            assert float(seen.told) < 60.0, row


def test_each_fault_of_a_pass_happens_to_five_estimators():
    by_fault = {}
    for row in declared_rows():
        by_fault.setdefault((row.what, row.phase), []).append(row.of)
    few = {what for what, names in by_fault.items() if len(names) < len(FIVE)}
    assert few == {("a chunk of a corpus is damaged, and comes back from a copy", "in a pass")}
