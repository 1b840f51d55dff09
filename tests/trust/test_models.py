"""A saved model sets nothing that would be called or opened."""

import json
import os
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral import TruncatedSVD, load, save
from dspectral.store.arrays import CONTENT_HASH, add_content_hash

X, Y = np.random.default_rng(3).random((20, 5)), np.arange(20) % 2
PIPELINES = {
    "flat": lambda: make_pipeline(StandardScaler(), LinearSVC()),
    "nested": lambda: make_pipeline(
        FeatureUnion([("a", make_pipeline(MaxAbsScaler(), TruncatedSVD(2))), ("b", Normalizer())]), Ridge()
    ),
}


def edited(path, change):
    """Change each estimator in a file of a model; return how many there are."""
    file = Path(path) / "zarr.json"
    metadata = json.loads(file.read_text())
    found = list(estimators(metadata["attributes"]["dspectral_model"]))
    for node in found:
        change(node)
    content = {key: one for key, one in metadata["attributes"].items() if key != CONTENT_HASH}
    file.write_text(json.dumps({**metadata, "attributes": add_content_hash(content)}))
    return len(found)


def estimators(node):
    if isinstance(node, dict):
        yield from [node] if node.get("kind") == "object" else []
        node = list(node.values())
    for one in node if isinstance(node, list) else ():
        yield from estimators(one)


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

    def plant(node):
        node["attributes"]["memory"] = cache

    edited(path, plant)
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
