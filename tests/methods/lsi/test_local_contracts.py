import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from dspectral import LocalLSI
from dspectral.methods.lsi import LocalRecipe
from tests.methods.lsi.local_rows import CLASSES, NAMES, PLAIN, ROWS, SEVERAL, K, N, lazy


@pytest.mark.parametrize(
    ("settings", "labels", "sentence"),
    [
        ({}, ["x"] * N, "are in one class, 'x'"),
        (
            {"n_components": 31},
            CLASSES,
            "n_components is 31, but it must be from 1 to the number of columns, 30",
        ),
        ({"n_components": 0}, CLASSES, "n_components is 0, but it must be an integer of at least 1"),
        ({"method": "gds"}, CLASSES, "method is 'gds', but it must be one of 'rds', 'lrw'"),
        ({"recipe": LocalRecipe(a=0.0)}, CLASSES, "a is 0.0, but must be above 0"),
        ({"gamma": np.nan}, CLASSES, "gamma is nan, but it must be a finite number"),
        ({"C": -1.0}, CLASSES, "C is -1.0, but must be above 0"),
        ({}, CLASSES[:9], "classes for 9 documents, but X has 90"),
        ({}, None, "requires y"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(settings, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        LocalLSI(**{"n_components": 2, **settings}).fit(ROWS, labels)


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("method", ["rds", "lrw"])
def test_a_class_that_none_or_all_are_in_has_a_constant_score(method, lazily):
    rows = lazy(ROWS, 40) if lazily else ROWS
    members = np.column_stack([SEVERAL, np.zeros(N), np.ones(N)])
    with pytest.warns(UserWarning, match=r"(none|all) of the documents are in class [34]") as told:
        local = LocalLSI(2, method=method).fit(rows, members)
    assert len(told) == 2
    scores = local.decision_function(ROWS)
    np.testing.assert_array_equal(scores[:, 3:], np.tile(local.intercept_[3:], (N, 1)))
    np.testing.assert_array_equal(local.predict(ROWS)[:, 3:], np.tile([0, 1], (N, 1)))
    assert local.region_sizes_[3:].tolist() == [0, 0]
    np.testing.assert_allclose(
        scores[:, :3], LocalLSI(2, method=method).fit(ROWS, SEVERAL).decision_function(ROWS)
    )


def test_folds_that_lack_a_class_or_hold_one_document_of_it_are_learned_from():
    labels = np.array(["common"] * 44 + ["other"] * 44 + ["rare"] * 2)
    with pytest.warns(UserWarning, match="least populated class"):
        scores = cross_val_score(LocalLSI(2, **PLAIN), ROWS, labels, cv=4, error_score="raise")
    assert np.isfinite(scores).all()
    one = LocalLSI(2, **PLAIN).fit(ROWS[:89], labels[:89])
    assert [len(axes) for axes in one.components_] == [2, 2, 1]


def test_by_itself_it_weighs_documents_and_takes_no_more_components_than_there_are():
    local = LocalLSI().fit(ROWS, CLASSES)
    assert local.relevancy_ is not None
    assert {len(axes) for axes in local.components_} == {25}
    few = LocalLSI(method="rds").fit(ROWS[:, :9], CLASSES)
    assert {len(axes) for axes in few.components_} == {9}
    pairs = LocalLSI(method="rds").fit(ROWS[:4], [0, 0, 1, 1])
    assert {len(axes) for axes in pairs.components_} == {2}


def test_too_few_directions_are_a_warning_and_spaces_have_what_there_is():
    rows = np.tile([[1.0, 2.0, 0.0]], (6, 1))
    with pytest.warns(UserWarning, match=r"n_components is 2, but no class has more than 1 independent"):
        local = LocalLSI(2, **PLAIN).fit(rows, [0, 0, 0, 1, 1, 1])
    assert local.transform(rows).shape == (6, 2)


def test_predictions_are_dense_where_the_indicator_was_and_names_come_from_its_columns():
    frame = pd.DataFrame(SEVERAL, columns=NAMES)
    local = LocalLSI(2, **PLAIN).fit(ROWS, frame)
    assert local.classes_.tolist() == NAMES.tolist()
    found = local.predict(ROWS)
    assert (type(found), found.dtype) == (np.ndarray, np.bool_)
    assert sparse.issparse(LocalLSI(2, **PLAIN).fit(ROWS, sparse.csr_array(SEVERAL)).predict(ROWS))
    expected = np.mean((found == SEVERAL).all(axis=1))
    assert local.score(ROWS, SEVERAL) == expected
    assert local.score(lazy(ROWS, 40), da.from_array(SEVERAL, chunks=(15, -1))) == expected


@pytest.mark.parametrize("method", ["rds", "lrw"])
def test_numbers_that_are_none_are_named(method):
    rows = ROWS.copy()
    rows[50, 3] = np.nan
    with pytest.raises(
        ValueError, match=r"row block 1: .*row 10, column 3 is nan|row block \d: row \d+, column 3"
    ):
        LocalLSI(2, method=method).fit(lazy(rows, 40), CLASSES)
    with pytest.raises(ValueError, match="NaN"):
        LocalLSI(2, method=method).fit(rows, CLASSES)


def test_rows_of_another_width_are_refused():
    local = LocalLSI(2, **PLAIN).fit(ROWS, CLASSES)
    for rows in (ROWS[:, :9], lazy(ROWS[:, :9], 40)):
        with pytest.raises(ValueError, match="9"):
            local.predict(rows)


def test_too_few_passes_are_said(monkeypatch):
    monkeypatch.setattr("dspectral.methods.lsi.local.MAX_ITER", 3)
    with pytest.warns(ConvergenceWarning, match="stopped after 3 passes"):
        LocalLSI(K, recipe=LocalRecipe(tol=1e-12)).fit(ROWS, CLASSES)


def test_settings_that_are_no_recipe_are_refused():
    with pytest.raises(TypeError, match=r"recipe is .*, but it must be a LocalRecipe or None"):
        LocalLSI(2, recipe={"tol": 0.1}).fit(ROWS, CLASSES)
