"""Arrays of saved models against each other: every class declares its own, and load refuses those that do not fit."""

import json
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, load, save
from dspectral.persistence.checks import check_arrays
from dspectral.persistence.models import import_all
from dspectral.registry import ARRAYS, ESTIMATORS, RECORDS, Array, register_arrays
from dspectral.store.arrays import read_stored_group, write_stored_group
from dspectral.store.location import Location
from tests import model_mutants
from tests.contracts import CASES

PLAIN = {"sklearn.pipeline.Pipeline", "sklearn.pipeline.FeatureUnion", "sklearn.compose.ColumnTransformer"}
"""Classes that hold other estimators, and no arrays of their own."""


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: model_mutants.fitted(made) for name, made in model_mutants.models().items()}


def walked(value, owner=None):
    """Yield each estimator and record in a value, and each array with the class that holds it and its name."""
    if hasattr(value, "get_params") or hasattr(value, "_fields"):
        yield type(value), None
        fields = value._asdict() if hasattr(value, "_fields") else {**value.get_params(deep=False), **vars(value)}
        for name, part in fields.items():
            yield from walked(part, (type(value), name))
    elif isinstance(value, np.ndarray) or sparse.issparse(value):
        yield owner
    elif isinstance(value, list | tuple):
        for part in value:
            yield from walked(part, owner)


def declared(kind):
    return {name for base in kind.__mro__ for name in ARRAYS.get(base, ())}


def test_every_class_that_is_saved_declares_its_arrays(fitted):
    import_all()
    seen = {one for model in fitted.values() for one in walked(model)}
    tried = {kind for kind, name in seen if name is None}
    assert {name for name, kind in ESTIMATORS.items() if kind not in tried} == set()
    of_arrays = [kind for kind in RECORDS.values() if re.search("NDArray|ndarray|csr_array", str(kind.__annotations__))]
    assert len(of_arrays) > 8
    assert [kind for kind in of_arrays if kind not in ARRAYS] == []
    missing = {
        f"{kind.__name__}.{name}"
        for kind, name in seen
        if name and kind in {*ESTIMATORS.values(), *RECORDS.values()} and name not in declared(kind)
    }
    assert missing == set()


def rewritten(path, number, change):
    record = read_stored_group(Location.from_url(path))
    arrays = [record.array(i) for i in range(len(record.attributes["digests"]))]
    arrays[number] = change(arrays[number])
    write_stored_group(Location.from_url(path), {"dspectral_model": record.attributes["dspectral_model"]}, arrays)


FREE = {"WordVectorRepresentation", "TreePCA", "VectorQuantizer", "LocalLSI", "sketch", "logistic", "extra"}
"""Models with an array of any length: a word with its vector, a direction, a code or an iteration may be one less."""


@pytest.mark.parametrize("name", [*CASES, "sketch", "operators", "anchors", "extra", "logistic"])
def test_an_array_that_is_cut_or_not_finite_is_refused_by_name(name, fitted, tmp_path, monkeypatch):
    path = str(tmp_path / "model")
    save(fitted[name], path)
    record = read_stored_group(Location.from_url(path))
    arrays = [record.array(i) for i in range(len(record.attributes["digests"]))]
    for number, values in enumerate(arrays):
        changes = [lambda old: old.reshape(1, *old.shape)]
        if values.dtype.kind == "f":
            changes += [lambda old, wrong=wrong: np.where(old == old.flat[0], wrong, old) for wrong in (np.nan, np.inf)]
            changes.append(lambda old: old > 0)
        if name not in FREE:
            changes.append(lambda old: old[:-1])
        for change in changes:
            if not values.size:
                continue
            changed = [*arrays[:number], change(values), *arrays[number + 1 :]]
            group = SimpleNamespace(location=record.location, attributes=record.attributes, array=changed.__getitem__)
            monkeypatch.setattr("dspectral.persistence.models.read_stored_group", lambda _, group=group: group)
            with pytest.raises(
                ValueError,
                match=rf"{re.escape(path)} .*(indices|index|indptr|\w+\.\w+(\.\w+)?(\[\d+\])? |sparse)",
            ):
                load(path)


def test_a_file_and_an_array_are_named(tmp_path, fitted):
    path = str(tmp_path / "model")
    save(fitted["EMHMM"], path)
    rewritten(path, 1, lambda transition: transition[:1])
    with pytest.raises(ValueError, match=r"/model .*HiddenMarkov\.transition.*\(1, 2\)"):
        load(path)


def test_what_load_would_refuse_is_not_saved(tmp_path):
    pca = SketchedPCA(1).fit(np.eye(3))
    pca.mean_ = pca.mean_[:2]
    with pytest.raises(ValueError, match=r"SketchedPCA\.mean_.*\(2,\)"):
        save(pca, str(tmp_path / "model"))


class Part:
    """An object with arrays of every kind of declaration."""

    def __init__(self, **parts):
        vars(self).update(n=3, words=["a", "b"], **parts)


SOUND = {
    "square": np.eye(3), "ids": np.array([0, 2, 1]), "offsets": np.array([0, 1, 1, 3]), "rising": np.array([0, 2]),
    "shares": np.array([[0.25, 1.0], [0.75, 0.0]]), "logs": np.array([-np.inf, 0.0]), "parts": [np.ones(2), np.ones(3)],
    "either": np.ones(1), "wide": np.ones((2, 8)), "flag": None,
}  # fmt: skip
register_arrays(
    {
        "square": Array("n n"),
        "ids": Array("m", "iu", at_least=0, below="n"),
        "offsets": Array("m+1", "i", below="n", order="offsets"),
        "rising": Array("words", "i", below="n", order="rising"),
        "shares": Array("words k", at_least=0, sums=0),
        "logs": Array("*", finite=False),
        "parts": Array("*", each=True),
        "either": Array("n;1;"),
        "wide": Array("words 2*n+k"),
        "flag": Array("n", "b", optional=True),
    }
)(Part)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("square", np.ones((3, 2)), r"shape \(3, 2\)"),
        ("square", np.ones((2, 2)), r"shape \(2, 2\)"),
        ("square", np.full((3, 3), np.nan), "NaN"),
        ("square", np.eye(3, dtype=int), "type int64"),
        ("square", np.eye(3, dtype=np.longdouble), "type float128"),
        ("square", [1.0], r"\[1\.0\].*array"),
        ("ids", np.array([0, 3, 1]), "3.*3"),
        ("ids", np.array([0, -1, 1]), "-1.*0"),
        ("offsets", np.array([0, 1, 2]), r"shape \(3,\)"),
        ("offsets", np.array([1, 1, 1, 3]), "0.*3"),
        ("offsets", np.array([0, 1, 1, 4]), "0.*3"),
        ("offsets", np.array([0, 2, 1, 3]), "ascending"),
        ("rising", np.array([1, 1]), "ascending"),
        ("shares", np.array([[0.5, 1.0], [0.75, 0.0]]), "axis 0"),
        ("logs", np.array([np.inf]), "infinity"),
        ("logs", np.array([np.nan]), "NaN"),
        ("parts", [np.ones(2), np.ones((2, 2))], r"\[1\].*shape"),
        ("parts", None, "None.*array"),
        ("either", np.ones(2), r"shape \(2,\)"),
        ("wide", np.ones((2, 7)), r"shape \(2, 7\)"),
        ("flag", np.ones(3), "type float64"),
    ],
)
def test_each_kind_of_declaration_refuses_what_it_says(name, wrong, message):
    check_arrays(Part(**SOUND))
    check_arrays(Part(**{**SOUND, "either": np.float64(2), "ids": np.array([0, 2, 1], dtype=np.uint8)}))
    with pytest.raises(ValueError, match=rf"Part\.{name}.* ?{message}"):
        check_arrays(Part(**{**SOUND, name: wrong}))


def test_below_holds_of_rising_entries_too():
    model = Part(**{**SOUND, "rising": np.array([0, 3])})
    with pytest.raises(ValueError, match=r"Part\.rising.*3.*3"):
        check_arrays(model)


def test_a_number_that_sizes_are_compared_with_is_compared_too(tmp_path, fitted):
    path = str(tmp_path / "model")
    save(fitted["Topics"], path)
    record = read_stored_group(Location.from_url(path))
    head = json.dumps(record.attributes["dspectral_model"]).replace('"n_features_in_": 24', '"n_features_in_": 23')
    arrays = [record.array(i) for i in range(len(record.attributes["digests"]))]
    write_stored_group(Location.from_url(path), {"dspectral_model": json.loads(head)}, arrays)
    with pytest.raises(ValueError, match=r"Topics\.columns_.*23.*23"):
        load(path)


@pytest.mark.slow
def test_a_changed_model_is_refused_or_gives_the_same_in_two_processes():
    counts = model_mutants.judged(len(model_mutants.models()) * 2, seed=5)
    assert set(counts) <= {"refused", "functions of the file"}, counts
    assert counts["refused"] > 10
