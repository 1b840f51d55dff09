"""A saved model sets what a fit of its class sets, and nothing that would be called or opened."""

import json
import os
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral import TruncatedSVD, load, save
from dspectral.store.arrays import CONTENT_HASH, add_content_hash
from tests.contracts import CASES

X, Y = np.random.default_rng(3).random((20, 5)), np.arange(20) % 2
FROM_SKLEARN = {
    "Pipeline": lambda: make_pipeline(StandardScaler(), LinearSVC()),
    "nested": lambda: make_pipeline(
        FeatureUnion([("a", make_pipeline(MaxAbsScaler(), TruncatedSVD(2))), ("b", Normalizer())]), Ridge()
    ),
    "ColumnTransformer": lambda: ColumnTransformer([("a", make_pipeline(StandardScaler()), [0, 1])]),
    "LogisticRegression": LogisticRegression,
}


def fitted(name):
    if name in FROM_SKLEARN:
        return FROM_SKLEARN[name]().fit(X, Y)
    case = CASES[name]
    rows, labels = case.data()
    return case.make().fit(rows) if labels is None else case.make().fit(rows, labels)


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
        yield from [node] if node.get("kind") == "estimator" else []
        node = list(node.values())
    for one in node if isinstance(node, list) else ():
        yield from estimators(one)


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in (*CASES, *FROM_SKLEARN):
        save(fitted(name), str(folder / name))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES, *FROM_SKLEARN])
def test_no_attribute_hides_a_member_of_any_class_or_is_new(saved_models, name):
    path = saved_models / name
    original = (path / "zarr.json").read_text()
    model = load(str(path))
    inside = {type(model): model} | {type(one): one for one in model.get_params().values() if is_estimator(one)}
    members = {key for kind, one in inside.items() for key in (*dir(kind), *one.get_params(deep=False))}
    rng = np.random.default_rng(len(name))
    for member in [
        *rng.permutation(sorted(members))[:25],
        "memory",
        "steps",
        "another_",
        "_another",
        "os:system",
    ]:
        known = {kind for kind in inside if member in attributes_of(kind, inside)}
        edited(path, lambda node, member=member: node["attributes"].update({str(member): "os:system"}))
        if not known:
            with pytest.raises(ValueError, match=f"'{member}'"):
                load(str(path))
        (path / "zarr.json").write_text(original)


def attributes_of(kind, inside):
    return vars(inside[kind]).keys() - inside[kind].get_params(deep=False).keys()


def is_estimator(value):
    return hasattr(value, "get_params") and not isinstance(value, type)


class Payload:
    """A pickle that makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", ["Pipeline", "nested"])
def test_no_pickle_of_a_sender_is_read_by_the_next_fit(tmp_path, name):
    trace, cache, path = tmp_path / "trace", str(tmp_path / "cache"), str(tmp_path / "model")
    model = fitted(name)
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
    with pytest.raises(ValueError, match="attribute 'memory'"):
        load(path).fit(X, Y)
    assert not trace.exists()
    with pytest.raises(Exception):  # noqa: B017, PT011  the payload is real
        model.fit(X, Y)
    assert trace.exists()


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("LogisticRegression", "solver", "os:system"),
        ("Pipeline", "steps", "os:system"),
        ("Pipeline", "memory", [1]),
    ],
)
def test_parameters_are_held_against_the_rules_of_their_estimator(saved_models, tmp_path, name, parameter, value):
    save(fitted(name), str(tmp_path / "model"))

    def change(node):
        if parameter in node["parameters"]:
            node["parameters"][parameter] = value

    assert edited(tmp_path / "model", change)
    with pytest.raises(ValueError, match=rf"model.*{parameter}"):
        load(str(tmp_path / "model"))


def test_a_name_that_no_method_sets_is_refused_before_anything_is_written(tmp_path):
    model = TruncatedSVD(2).fit(X)
    model.note_ = "mine"
    with pytest.raises(TypeError, match=r"TruncatedSVD.*'note_'"):
        save(model, str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()
    assert Pipeline([("svd", TruncatedSVD(2))]).fit(X).memory is None


@pytest.mark.parametrize("value", ["12345", [1, 2, 3, 4, 5], {"kind": "tuple", "items": [1] * 5}, 5.0, None])
def test_a_number_of_a_fit_is_no_sequence_of_that_length(tmp_path, value):
    save(TruncatedSVD(2).fit(X), str(tmp_path / "model"))
    edited(tmp_path / "model", lambda node: node["attributes"].update({"n_features_in_": value}))
    with pytest.raises(ValueError, match=r"TruncatedSVD\.n_features_in_=.*integer"):
        load(str(tmp_path / "model"))
