"""Lists of labels: for each estimator they are the same as the indicator matrix of these labels."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from dspectral import HybridLSI, LocalLSI, MomentMultiLabelClassifier

TEXTS = [
    "the red cat sleeps",
    "a blue dog barks loud",
    "red dog and red cat run",
    "blue sky over a blue sea",
] * 8
COLUMN = pd.Series(["cat", "dog;blue", "cat;dog", ""] * 8)
LISTS = COLUMN.map(lambda cell: [label for label in cell.split(";") if label])
INDICATOR = pd.DataFrame({name: [name in labels for labels in LISTS] for name in ("blue", "cat", "dog")}).astype(float)


@pytest.mark.parametrize("estimator", [MomentMultiLabelClassifier(2), LocalLSI(2), HybridLSI(2)])
@pytest.mark.parametrize("given", [LISTS, LISTS.tolist(), LISTS.map(set).tolist()])
def test_label_lists_fit_like_their_indicator_in_a_pipeline_of_texts(estimator, given):
    model = make_pipeline(CountVectorizer(), estimator)
    last = model.fit(TEXTS, given)[-1]
    assert last.classes_.tolist() == ["blue", "cat", "dog"]
    names = ("predict_proba", "predict") if hasattr(last, "predict_proba") else ("predict",)
    names = names if hasattr(last, "predict") else ("transform",)
    actual = [getattr(model, name)(TEXTS) for name in names]
    model.fit(TEXTS, INDICATOR)
    for name, result in zip(names, actual, strict=True):
        dense = result.toarray() if sparse.issparse(result) else result
        np.testing.assert_allclose(dense, getattr(model, name)(TEXTS), atol=1e-12)


@pytest.mark.parametrize("estimator", [MomentMultiLabelClassifier(2), LocalLSI(2)])
def test_document_with_an_unseen_label_is_not_scored_as_correct(estimator):
    model = make_pipeline(CountVectorizer(), estimator).fit(TEXTS, LISTS)
    score = model.score(TEXTS, LISTS)
    assert score == model.score(TEXTS, LISTS.map(lambda labels: labels[::-1]))
    assert model.score(TEXTS, [[*labels, "new"] for labels in LISTS]) == 0.0


def test_a_column_of_unsplit_cells_is_an_error_that_says_how_to_split_it():
    with pytest.raises(ValueError, match=r"str\.split"):
        make_pipeline(CountVectorizer(), MomentMultiLabelClassifier(2)).fit(TEXTS, COLUMN)
