"""A saved model sets nothing that would be called or opened."""

import json
import os

import joblib
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral import TruncatedSVD, load, save
from tests.trust.edits import edit, estimators_of

X, Y = np.random.default_rng(3).random((20, 5)), np.arange(20) % 2
PIPELINES = {
    "flat": lambda: make_pipeline(StandardScaler(), LinearSVC()),
    "nested": lambda: make_pipeline(
        FeatureUnion([("a", make_pipeline(MaxAbsScaler(), TruncatedSVD(2))), ("b", Normalizer())]), Ridge()
    ),
}


class Payload:
    """A pickle that makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", PIPELINES)
def test_no_pickle_of_a_sender_is_read_by_the_next_fit(tmp_path, name):
    trace, cache, path = tmp_path / "trace", str(tmp_path / "cache"), str(tmp_path / "model")
    model = PIPELINES[name]().fit(X, Y)
    for part in [model, *(one for one in model.get_params().values() if isinstance(one, Pipeline))]:
        part.memory = cache
    model.fit(X, Y)
    outputs = list((tmp_path / "cache").rglob("output.pkl"))
    for output in outputs:
        joblib.dump(Payload(str(trace)), output)
    assert outputs
    save(model, path)
    # A folder that the file names as a parameter is left out.
    load(path).fit(X, Y)
    assert not trace.exists()
    file = tmp_path / "model" / "zarr.json"
    for at in estimators_of(json.loads(file.read_text())):
        edit(file, (*at, "attributes", "memory"), cache)
    with pytest.raises(ValueError, match=r"memory' hides|Certificate"):
        load(path).fit(X, Y)
    assert not trace.exists()
    with pytest.raises(Exception):  # noqa: B017, PT011  the payload is real
        model.fit(X, Y)
    assert trace.exists()


def test_an_attribute_that_a_caller_set_is_saved_and_one_that_hides_a_method_is_not(tmp_path):
    model = TruncatedSVD(2).fit(X)
    model.note_ = "mine"
    save(model, str(tmp_path / "model"))
    assert load(str(tmp_path / "model")).note_ == "mine"
    model.transform = "mine"
    with pytest.raises(ValueError, match="'transform' hides"):
        save(model, str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
