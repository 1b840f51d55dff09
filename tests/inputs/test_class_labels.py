"""Labels and parameters at the door: those that would be taken for others give one sentence."""

import re
import uuid
import warnings
from fractions import Fraction
from functools import partial

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn.exceptions
from scipy import sparse
from sklearn.base import clone

from dspectral import (
    HybridLSI,
    LocalLSI,
    MomentMultiLabelClassifier,
    SketchedPCA,
    TruncatedSVD,
    write_counts,
)
from dspectral.inputs.labels import check_label_memory, encode_classes
from dspectral.inputs.sequences import (
    as_corpus,
    as_labeled_corpus,
    as_token_lists,
    encode_sentences,
)
from dspectral.parameters import check_integer, check_option, check_real, resolve_seed

EMPTY = sparse.csr_array((0, 0))


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series, lambda y: np.array(y, dtype=object)])
@pytest.mark.parametrize("labels", [["b", "a", "b"], [2, 1, 2], [True, False, True]])
def test_labels_of_every_kind_give_the_same_indicator(make, labels):
    actual = encode_classes(make(labels), 3)
    assert actual.indicator.toarray().tolist() == [[0, 1], [1, 0], [0, 1]]
    assert actual.classes.tolist() == sorted(set(labels))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, np.nan, 2.0], "class.*NaN"),
        (["a", float("nan"), "b"], "class.*NaN"),
        (["a", 1, "b"], "numbers and strings"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), "class.*NaN"),
        (np.ma.array([0, 1, 0], mask=[0, 1, 0]), "y.*masked"),
        (["a", "", "b"], "empty"),
        (["a"], "1 documents.*X.*3"),
    ],
)
def test_labels_that_would_be_taken_for_others_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        encode_classes(labels, 3)


@pytest.mark.parametrize("make", [LocalLSI, HybridLSI])
@pytest.mark.parametrize(
    "column", [lambda y: y[:, None], lambda y: pd.DataFrame({"label": y}), lambda y: [[one] for one in y]]
)
def test_a_column_of_labels_is_labels(make, column):
    X, y = np.random.default_rng(0).random((12, 6)), np.array(list("abcabcabcabc"))
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        actual = make(2).fit(X, column(y))
    expected = make(2).fit(X, y)
    assert actual.classes_.tolist() == expected.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(actual.transform(X), expected.transform(X))


@pytest.mark.parametrize(
    "rows", [lambda A: A, lambda A: da.from_array(np.zeros(A.shape)).map_blocks(lambda _: A, meta=EMPTY)]
)
def test_room_behind_the_last_row_is_not_counted(rows):
    A = sparse.random_array((9, 5), density=0.5, format="csr", random_state=0)
    roomy = sparse.csr_array(A)
    roomy.data, roomy.indices = (
        np.append(A.data, [1e9, 1e9]),
        np.append(A.indices, [0, 1]).astype(A.indices.dtype),
    )
    for model in (TruncatedSVD(2), SketchedPCA(2)):
        # Of lazy rows nobody knows how many zeros they have: their means are taken off at another place.
        expected = clone(model).fit(rows(A))
        actual = model.fit(rows(roomy))
        assert actual.energy_ == expected.energy_
        np.testing.assert_array_equal(actual.components_, expected.components_)
        np.testing.assert_array_equal(actual.transform(roomy), expected.transform(A))


def lazy(make):
    """Return a function that makes an indicator lazy, in blocks of one kind."""
    return lambda y: da.from_array(y, chunks=(5, -1)).map_blocks(make)


INDICATORS = [
    np.asarray,
    sparse.csr_array,
    sparse.csc_array,
    sparse.coo_matrix,
    lazy(np.asarray),
    lazy(sparse.csr_array),
]


def calls_with_an_indicator(X, y):
    """Return every call that takes an indicator matrix of labels."""
    known = np.stack([np.arange(12) % 2, np.ones(12)], axis=1)
    return [
        *(partial(model.fit, X, y) for model in (LocalLSI(1), HybridLSI(1), MomentMultiLabelClassifier(1))),
        partial(MomentMultiLabelClassifier(1).fit(X, known).score, X, y),
        partial(write_counts, X, f"memory://indicators/{uuid.uuid4().hex}", labels=y),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("make", INDICATORS)
@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan, np.inf, 2**40])
def test_indicator_of_other_values_than_0_and_1_is_refused_everywhere(make, value):
    X = np.random.default_rng(3).integers(1, 4, (12, 5)).astype(float)
    y = np.stack([np.arange(12) % 2, np.arange(12) % 3 == 0], axis=1).astype(np.float64 if value != 2**40 else int)
    y[7, 1] = value
    for call in calls_with_an_indicator(X, make(y)):
        with pytest.raises(ValueError, match=rf"row \d+, column 1.*{re.escape(str(y[7, 1]))}"):
            call()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_an_indicator_is_the_same_in_every_type_and_container(dtype):
    X = np.random.default_rng(3).integers(1, 4, (12, 5)).astype(float)
    y = np.stack([np.arange(12) % 2, np.arange(12) % 3 == 0], axis=1)
    for make in (HybridLSI, MomentMultiLabelClassifier):
        expected = make(1).fit(X, y).transform(X) if make is HybridLSI else make(1).fit(X, y).decision_function(X)
        for wrap in INDICATORS[:4]:
            model = make(1).fit(X, wrap(y.astype(dtype)))
            actual = model.transform(X) if make is HybridLSI else model.decision_function(X)
            np.testing.assert_array_equal(actual, expected)


def test_an_integer_is_its_own_seed_and_none_is_another_each_time():
    assert resolve_seed(0) == 0
    assert resolve_seed(np.uint32(2**32 - 1)) == 2**32 - 1
    assert type(resolve_seed(np.int64(3))) is int
    seeds = {resolve_seed(None) for _ in range(20)}
    assert len(seeds) == 20
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_gives_its_next_draw(make):
    one, same = make(3), make(3)
    first, second = resolve_seed(one), resolve_seed(one)
    assert first != second
    assert [resolve_seed(same), resolve_seed(same)] == [first, second]


def test_numbers_of_numpy_become_those_of_python():
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        actual = check_integer("k", np.dtype(dtype).type(3), at_least=1)
        assert (actual, type(actual)) == (3, int)
    assert (check_real("C", np.float32(0.5)), type(check_real("C", 1))) == (0.5, float)
    assert check_option("norm", None, ("l2", None)) is None
    assert type(check_option("norm", np.str_("l2"), ("l1", "l2"))) is str
    assert check_real("C", Fraction(1, 4)) == 0.25


integer = partial(check_integer, "k", at_least=1, at_most=3)
real = partial(check_real, "C", at_least=0.0)
option = partial(check_option, "norm", options=("l2", 1))
RANGE = ".*1 to 3"


@pytest.mark.parametrize(
    ("check", "values", "error", "message"),
    [
        (resolve_seed, [-1], ValueError, "random_state.*-1"),
        (resolve_seed, [True, 1.0, "1"], TypeError, "random_state.*{}"),
        (integer, [True, 1.0, "1", None, np.array(1), np.float64(1)], TypeError, "k" + RANGE),
        (integer, [0, 4], ValueError, "k.*{}" + RANGE),
        (partial(check_integer, "k", at_most=3), [4], ValueError, "k.*4.*3"),
        (real, [True, "1", None, 1j, np.array(1.0)], TypeError, "C.*0.0"),
        (real, [-0.5, np.nan, np.inf], ValueError, "C.*{}.*0.0"),
        (option, ["L2", 0, False, np.array(["l2"])], ValueError, "norm.*'l2', 1"),
    ],
)
def test_a_parameter_that_is_none_is_refused_by_its_name_value_and_range(check, values, error, message):
    for value in values:
        with pytest.raises(error, match=message.replace("{}", re.escape(repr(value)))):
            check(value)


SENTENCES = [["the", "cat"], [], ["the", "dog", "cat"]]


KINDS = {
    "list": list,
    "tuple": lambda lists: tuple(map(tuple, lists)),
    "generator": lambda lists: (iter(one) for one in lists),
    "pandas": pd.Series,
    "pandas column of arrays": lambda lists: pd.Series([np.array(one, dtype=object) for one in lists]),
    "Arrow": lambda lists: pa.chunked_array([pa.array(lists)]),
    "array of lists": lambda lists: np.array(lists, dtype=object),
    "lists of NumPy strings": lambda lists: [np.array(one, dtype=str) for one in lists],
}


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_tokens_come_in_every_kind_of_collection(kind):
    corpus = as_corpus(KINDS[kind](SENTENCES))
    assert corpus.words == ["<?>", "cat", "the", "dog"]
    assert {type(word) for word in corpus.words} == {str}
    assert corpus.counts.tolist() == [0, 2, 2, 1]
    assert encode_sentences(KINDS[kind](SENTENCES), corpus.words).ids.tolist() == [2, 1, 2, 3, 1]
    labelled = as_labeled_corpus(KINDS[kind](SENTENCES), KINDS[kind](SENTENCES))
    assert labelled.words == ["<?>", "the", "cat", "dog"]
    assert labelled.labels == ["the", "cat", "dog"]
    assert labelled.sentences.items[0].offsets.tolist() == [0, 2, 2, 5]


@pytest.mark.parametrize("sentence", ["the cat", b"the", None, float("nan"), 3, {"the"}, {"the": 1}, ["the", 3]])
def test_what_is_no_list_of_strings_is_named(sentence):
    with pytest.raises(ValueError, match=r"sentence 1"):
        as_token_lists([["a"], sentence])


def test_labeled_tokens_are_any_hashable_and_arrays_equal_lists():
    codes = np.array([[1, 2], [2, 2]])
    corpus = as_labeled_corpus(codes, [[True, "b"], [(1, 2), True]])
    assert corpus.words == ["<?>", 1, 2]
    assert corpus.labels == [True, "b", (1, 2)]
    assert encode_sentences([[2, 7]], corpus.words).ids.tolist() == [2, 0]
    with pytest.raises(ValueError, match=r"sentence 0.*'ab'"):
        as_labeled_corpus(["ab"], [["K", "V"]])


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, ""])
def test_a_missing_tag_is_refused_and_named(missing):
    with pytest.raises(ValueError, match=r"sequence 1.*missing"):
        as_labeled_corpus([["a"], ["b", "c"]], [["X"], ["Y", missing]])
    if not isinstance(missing, str):
        with pytest.raises(ValueError, match=r"sequence 0.*missing"):
            as_labeled_corpus([["a", missing]], [["X", "Y"]])


WIDE = sparse.csr_array((np.ones(40), (np.arange(40), np.arange(40) % 7)), shape=(40, 1_000_000))
OF_LABELS = [
    MomentMultiLabelClassifier(),
    MomentMultiLabelClassifier.as_published(40),
    LocalLSI(2),
    LocalLSI(2, method="lrw"),
    HybridLSI(2, alpha=0.5),
]


@pytest.mark.parametrize("model", OF_LABELS, ids=str)
@pytest.mark.parametrize("y", [WIDE, da.from_array(WIDE, chunks=(20, -1), asarray=False)], ids=["CSR", "Dask"])
def test_million_labels_are_announced_before_a_block_is_read(model, y):
    X = np.random.default_rng(0).poisson(1.0, (40, 60)).astype(float)
    with pytest.warns(UserWarning, match=r"1,000,000 labels.* [\d.]+ GB of memory; remove labels"):  # noqa: SIM117
        with (
            dask.config.set({"dspectral.worker-memory": "1GB"}),
            pytest.raises(MemoryError, match="GB, but can use"),
        ):
            clone(model).fit(X, y)
    with warnings.catch_warnings(action="error"):
        check_label_memory(1000, 1000, 3)
