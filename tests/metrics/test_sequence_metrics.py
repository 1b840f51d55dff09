import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import v_measure_score

from dspectral.metrics.sequences import (
    edit_distance,
    frame_accuracy,
    label_error_rate,
    many_to_one,
    one_to_one,
    v_measure,
)

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pairs=pairs)
def test_v_measure_is_that_of_scikit_learn_and_mappings_are_ordered(pairs):
    true, found = zip(*pairs, strict=True)
    assert v_measure(true, found) == pytest.approx(v_measure_score(true, found), abs=1e-9)
    assert one_to_one(true, found) <= many_to_one(true, found) <= 1.0
    assert many_to_one(true, true) == one_to_one(true, true) == v_measure(true, true) == 1.0


def slow_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(
        slow_distance(a[1:], b) + 1, slow_distance(a, b[1:]) + 1, slow_distance(a[1:], b[1:]) + (a[0] != b[0])
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(a=st.text("ab", max_size=5), b=st.text("abc", max_size=5))
def test_edit_distance_is_that_of_the_definition(a, b):
    assert edit_distance(a, b) == slow_distance(a, b)


def test_one_to_one_leaves_states_over_where_there_are_more_states_than_tags():
    assert one_to_one(["N"] * 4, [0, 1, 1, 2]) == 0.5
    assert many_to_one(["N"] * 4, np.array([0, 1, 1, 2])) == 1.0


def test_runs_are_what_counts_for_label_errors():
    assert label_error_rate([[1, 1, 2]], [[1, 2, 2]]) == 0.0
    assert frame_accuracy([[1, 1, 2]], [[1, 2, 2]]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("function", "true", "found", "message"),
    [
        (many_to_one, "NN", [0], "there are 2 true values, but 1 found ones"),
        (v_measure, "", [], "both are empty"),
        (frame_accuracy, [[1]], [], "there are 1 true sequences, but 0 found ones"),
        (label_error_rate, [[1], [1, 2]], [[1], [1]], "sequence 1 has 2 true labels, but 1 found ones"),
        (frame_accuracy, [[]], [[]], "all sequences are empty"),
    ],
)
def test_what_cannot_be_compared_is_named(function, true, found, message):
    with pytest.raises(ValueError, match=message):
        function(true, found)
