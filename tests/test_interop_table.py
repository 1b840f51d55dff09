"""The committed table of interoperation says what the tests in tests/interop declare."""

from tests.interop.rows import Row, declared_rows, written_rows


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, written = declared_rows(), written_rows()
    assert len(declared) == len(set(declared)) >= 20
    assert written.keys() == set(declared), "make interop writes the table anew"


def test_nothing_in_the_table_failed():
    assert [row for row, outcome in written_rows().items() if outcome.startswith("failed")] == []


def test_a_row_is_read_from_the_test_that_declares_it():
    wanted = Row(
        "gensim", "ours to theirs", "`KeyedVectors.load_word2vec_format` loads our text file, bit for bit"
    )
    assert wanted in declared_rows()
    assert written_rows()[wanted] == "passed"
