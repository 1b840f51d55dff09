"""The committed table of interoperation says what the tests in tests/interop declare."""

import inspect

from dspectral import NgramHashing
from tests.interop.rows import Row, declared_rows, written_rows


def test_the_table_has_the_rows_that_tests_declare_and_no_others():
    declared, written = declared_rows(), written_rows()
    assert len(declared) == len(set(declared)) >= 20
    assert written.keys() == set(declared), "make interop writes the table anew"


def test_nothing_in_the_table_failed_or_was_left_out_for_want_of_what_is_there_now():
    old = "tokenizer" not in inspect.signature(NgramHashing).parameters
    fine = ("passed", "skipped (build_store of", "skipped (NgramHashing of") if old else ("passed",)
    wrong = [row for row, outcome in written_rows().items() if not outcome.startswith(fine)]
    assert wrong == [], "make interop writes the table anew"


def test_a_row_is_read_from_the_test_that_declares_it():
    wanted = Row(
        "gensim", "ours to theirs", "`KeyedVectors.load_word2vec_format` loads our text file, bit for bit"
    )
    assert wanted in declared_rows()
    assert written_rows()[wanted] == "passed"
