import json
import pkgutil
import re
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import product
from types import ModuleType

import numpy as np
import pytest
import zarr
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

import dspectral
from dspectral import NgramHashing, SketchedPCA, TfidfWeighting, TruncatedSVD, load, save
from dspectral.persistence.encoding import find_class
from dspectral.persistence.models import import_all
from dspectral.registry import CLASSES, SHAPES, check_shapes
from dspectral.store import arrays
from dspectral.store.arrays import read_stored_group, write_stored_group
from dspectral.store.location import Location, StoreError
from dspectral.summary_files import _resolve_class
from dspectral.text.tokenizers import Tokenizer
from tests.contracts import CASES
from tests.strategies import zipf_counts

TEXTS = ["play some jazz", "play loud rock", "book cheap flight", "book my flight", "what weather today"] * 4
LABELS = ["music", "music", "travel", "travel", "weather"] * 4


def assert_same(found, expected, name="model"):
    """The same types and the same bits, all the way down."""
    assert type(found) is type(expected), name
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, name
        if expected.flags.forc:  # a view with gaps, as some versions of scikit-learn keep, comes back without them
            assert found.flags.c_contiguous == expected.flags.c_contiguous, name
        assert found.shape == expected.shape, name
        assert found.tolist() == expected.tolist() if found.dtype == object else found.tobytes() == expected.tobytes()
    elif hasattr(expected, "get_params"):
        assert_same(found.get_params(deep=False), expected.get_params(deep=False), name)
        assert_same(vars(found), vars(expected), name)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), name
        for key in expected:
            assert_same(found[key], expected[key], f"{name}.{key}")
    elif isinstance(expected, tuple | list):
        assert len(found) == len(expected), name
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{name}[{i}]")
    elif isinstance(expected, np.random.Generator):
        assert_same(found.bit_generator.state, expected.bit_generator.state)
    elif isinstance(expected, np.random.RandomState):
        assert_same(found.get_state(), expected.get_state())
    else:
        assert repr(found) == repr(expected), name  # also of NaN


@pytest.fixture(params=["local", "memory"])
def path(request, tmp_path):
    return str(tmp_path / "model.zarr") if request.param == "local" else f"memory://models/{tmp_path.name}"


@pytest.fixture
def pca():
    return SketchedPCA(2, solver="frequent_directions").fit(zipf_counts(60, 40, 8))


@pytest.fixture
def mine():
    return MyPCA(2, solver="frequent_directions").fit(zipf_counts(60, 40, 8))


class MyPCA(SketchedPCA):
    """A user's own, with a method and no parameters of its own."""

    def first(self):
        return self.components_[0]


@pytest.mark.parametrize(
    "last",
    [TruncatedSVD(2), LogisticRegression(), make_pipeline(TruncatedSVD(2), StandardScaler(), LinearSVC())],
    ids=lambda last: type(last).__name__,
)
def test_a_pipeline_from_texts_on_comes_back_as_one(path, last):
    model = make_pipeline(NgramHashing(256), TfidfWeighting(tf="sqrt"), Normalizer("l1"), last)
    model.fit(TEXTS, LABELS)
    save(model, path)
    loaded = load(path)
    assert_same(loaded, model)
    name = "transform" if isinstance(last, TruncatedSVD) else "decision_function"
    assert_same(getattr(loaded, name)(["new text"]), getattr(model, name)(["new text"]))


def test_a_subclass_is_found_where_it_is_imported_or_given(path):
    model = MyPCA(2).fit(zipf_counts(60, 40, 8))
    save(model, path)
    assert_same(load(path), model)
    assert_same(load(path).first(), model.first())
    edit(path, "class", "antigravity.MyPCA")
    with pytest.raises(ValueError, match=r"'antigravity\.MyPCA'"):
        load(path)
    assert "antigravity" not in sys.modules
    assert type(load(path, classes=[MyPCA])) is MyPCA


def edit(path, *keys_and_value):
    """Change a value in a file of a model; its content hash is computed again."""
    *keys, last, value = keys_and_value
    group = read_stored_group(Location(path))
    arrays = [group.array(i) for i in range(len(group.attributes["digests"]))]
    head = node = json.loads(json.dumps(group.attributes["dspectral_model"]))
    for key in keys:
        node = node[key]
    node[last] = value
    write_stored_group(Location(path), {"dspectral_model": head}, arrays)


@pytest.mark.parametrize(
    ("keys_and_value", "message"),
    [
        (("class", "Pickle"), "'Pickle'"),
        (("attributes", "certificate_", "class", "subprocess.Popen"), "'subprocess.Popen'"),
        (("attributes", "mean_", {"kind": "pickle", "items": []}), "'pickle'"),
        (("format", 3), "format"),
        (("attributes", "transform", "x"), "'transform'"),
        (("attributes", "__class__", None), "'__class__'"),
        (("attributes", "n_components", 3), "'n_components'"),
        (("attributes", "_n_features_out", 3), "'_n_features_out'"),
        (("attributes", "n_features_in_", 41), r"SketchedPCA\.components_ has shape \(2, 40\)"),
        (("attributes", "components_", "number", 10**6), "1000000"),
    ],
)
def test_a_model_that_names_something_else_is_refused(path, pca, keys_and_value, message):
    save(pca, path)
    edit(path, *keys_and_value)
    with pytest.raises(ValueError, match=f"{re.escape(path)}.*{message}"):
        load(path)


def test_a_pipeline_does_not_open_the_cache_folder_in_its_file(path):
    save(make_pipeline(StandardScaler(), memory="pickles").fit(np.eye(3)), path)
    assert load(path).memory is None
    edit(path, "attributes", "memory", "pickles")
    with pytest.raises(ValueError, match="'memory'"):
        load(path)


@pytest.mark.parametrize("name", CASES)
def test_each_array_of_a_class_has_a_shape_that_is_checked(name):
    model = CASES[name].make().fit(*CASES[name].data())
    shapes = {key: shape for kind in type(model).__mro__ for key, shape in SHAPES.get(kind, {}).items()}
    matrices = {key for key, value in vars(model).items() if isinstance(value, np.ndarray) and value.ndim > 1}
    assert matrices <= shapes.keys() | model.get_params(deep=False).keys()
    check_shapes(model)
    for key in shapes.keys() & {key for key, value in vars(model).items() if isinstance(value, np.ndarray)}:
        whole = getattr(model, key)
        setattr(model, key, whole[..., None])
        with pytest.raises(ValueError, match=rf"{name}\.{key} has shape"):
            check_shapes(model)
        setattr(model, key, whole)


ELSEWHERE = """
import dask, logging, sys, threading
before = dict(dask.config.config)
from dspectral import *
assert dask.config.config == before
assert threading.active_count() == 1
assert not logging.getLogger().handlers
assert "distributed" not in sys.modules
print(load(sys.argv[1]).singular_values_.tobytes().hex())
try:
    load(sys.argv[2])
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_models_load_in_another_process_if_their_classes_are_imported(tmp_path, pca):
    save(pca, str(tmp_path / "model"))
    save(make_pipeline(StandardScaler(), MyPCA(1)).fit(np.eye(4)), str(tmp_path / "pipeline"))
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "model"), str(tmp_path / "pipeline")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert output[0] == pca.singular_values_.tobytes().hex()
    assert "'tests.test_persistence.MyPCA'" in output[1]


@pytest.mark.slow
def test_no_name_of_any_module_that_can_be_imported_makes_anything_run():
    import_all()
    before = set(sys.modules)
    names = {module.name for module in pkgutil.iter_modules()} | set(sys.stdlib_module_names) | before
    paths = [f"{name}:{path}" for name in names for path in ("os.system", "main", "__loader__.load_module")]
    for name in filter(re.compile("dspectral[.]").match, before):  # and whatever a module of this library has imported
        found = vars(sys.modules[name])
        paths += [f"{name}:{a}.{b}" for a, of in found.items() if isinstance(of, ModuleType) for b in dir(of)]
        paths += [f"{name}:{a}" for a, of in found.items() if getattr(of, "__module__", "") != name]
    doors = (
        _resolve_class,
        lambda name: find_class(name.replace(":", "."), ()),
        lambda name: Tokenizer(name).resolve(),
    )
    taken = []
    for path, door in product(paths, doors):
        with suppress(ValueError, TypeError, AttributeError):
            taken.append(door(path))
    assert len(paths) > 10_000
    assert all(issubclass(kind, tuple(CLASSES.values())) for kind in taken)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        float("nan"),
        float("-inf"),
        "\N{SNOWMAN} \0",
        (1, (2.5, None), []),
        {"a": [1], 2: (3,), (4, "b"): {"kind": "tuple"}},
        np.float32(0.1),
        np.bool_(False),
        np.str_("word"),
        np.array(3.5),
        np.array(["a", "long word", ""]),
        np.array([["x", None]], dtype=object),
        np.zeros((0, 5), dtype=np.float32),
        np.array([np.nan, -0.0, np.inf]),
        np.asfortranarray(np.arange(24.0).reshape(4, 6)),
        dspectral.Weighting("binary", np.array([0.5]), None, "l2"),
        NgramHashing(64, (1, 2)),
        slice(0, 5),
        np.random.default_rng(3),
        np.random.RandomState(3),
        sparse.csr_array(np.eye(3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_each_kind_comes_back_the_same(tmp_path, mine, value):
    setattr(mine, "extra_", value)  # noqa: B010
    save(mine, str(tmp_path / "model"))
    assert_same(load(str(tmp_path / "model")).extra_, value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (KBinsDiscretizer(), r"MyPCA\.extra_ .*KBinsDiscretizer"),
        ([1, b"2"], r"MyPCA\.extra_\[1\] .*bytes"),
        ([1, {b"2"}], r"MyPCA\.extra_\[1\]\[0\] .*bytes"),
        (np.zeros(2, dtype=complex), r"MyPCA\.extra_ .*complex128"),
        (print, r"MyPCA\.extra_ .*builtin_function_or_method"),
    ],
)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(tmp_path, mine, value, message):
    setattr(mine, "extra_", value)  # noqa: B010
    with pytest.raises(TypeError, match=message):
        save(mine, str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


def test_only_fitted_estimators_of_known_classes_are_saved(tmp_path):
    with pytest.raises(TypeError, match=r"KBinsDiscretizer.*estimator of dspectral"):
        save(KBinsDiscretizer(), str(tmp_path / "model"))
    for model in (SketchedPCA(), StandardScaler(), make_pipeline(NgramHashing(), SketchedPCA())):
        with pytest.raises(ValueError, match=f"{type(model).__name__}.*fitted"):
            save(model, str(tmp_path / "model"))


def test_a_model_is_replaced_only_when_asked_and_leaves_nothing_behind(path, pca):
    save(pca, path)
    with pytest.raises(ValueError, match="overwrite=True"):
        save(TruncatedSVD(1).fit(np.eye(3)), path)
    assert type(load(path)) is SketchedPCA
    zarr.open_group(Location(path).open(read_only=False)).create_group("arrays-theirs")
    save(TruncatedSVD(1).fit(np.eye(3)), path, overwrite=True)
    assert type(load(path)) is TruncatedSVD
    left = zarr.open_group(Location(path).open(), mode="r").group_keys()
    assert len(list(left)) == 2
    assert "arrays-theirs" in Location(path).list_names()


def test_a_first_save_that_was_killed_is_made_again_in_the_same_place(tmp_path, pca):
    zarr.create_group(tmp_path)
    (tmp_path / f"zarr.json.{'0a' * 16}.partial").write_bytes(b"{")
    save(pca, str(tmp_path))
    assert_same(load(str(tmp_path)), pca)


def test_a_store_is_never_taken_for_a_model(tmp_path, pca):
    where = str(tmp_path / "counts.zarr")
    dspectral.write_counts(np.eye(3), where)
    with pytest.raises(ValueError, match=re.escape(where)):
        load(where)
    with pytest.raises(ValueError, match=re.escape(where)):
        save(pca, where, overwrite=True)
    assert dspectral.open_store(where).shape == (3, 3)


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_another_program_wrote_is_left_alone(tmp_path, pca, overwrite):
    group = zarr.open_group(str(tmp_path / "theirs"), mode="w")
    group.create_array("arrays-0001", data=np.arange(3))
    zarr.open_group(str(tmp_path / "store"), mode="w").create_array("vocabulary", data=np.arange(3))
    with pytest.raises(StoreError, match=re.escape(str(tmp_path / "store"))):
        dspectral.write_counts(np.eye(3), str(tmp_path / "store"))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "arrays-0000").write_text("a file")
    for name in ("theirs", "files"):
        with pytest.raises(ValueError, match=name):
            save(pca, str(tmp_path / name), overwrite=overwrite)
    assert group["arrays-0001"][:].tolist() == [0, 1, 2]
    assert (tmp_path / "files" / "arrays-0000").read_text() == "a file"


@pytest.mark.slow
@pytest.mark.parametrize("n_savers", [1, 3])
def test_loads_beside_overwrites_return_a_saved_model_whole(path, n_savers):
    fitted = [SketchedPCA(k).fit(zipf_counts(60, 40, 8)) for k in (1, 2, 3)]
    save(fitted[0], path)
    errors, n_running = [], [n_savers]

    def overwrite(seed):
        try:
            for number in np.random.default_rng(seed).integers(3, size=4):
                save(fitted[number], path, overwrite=True)
        except Exception as error:  # noqa: BLE001  whatever it is, the test fails
            errors.append(error)
        n_running[0] -= 1

    savers = [threading.Thread(target=overwrite, args=(seed,)) for seed in range(n_savers)]
    for saver in savers:
        saver.start()
    n_loads = 0
    while n_running[0] or not n_loads:
        loaded = load(path)
        assert_same(loaded, fitted[loaded.n_components - 1])
        n_loads += 1
    for saver in savers:
        saver.join()
    assert errors == []
    assert len(Location(path).list_names()) == 2


def test_arrays_that_a_killed_save_left_are_removed_by_the_next(path, pca, monkeypatch):
    save(pca, path)
    with monkeypatch.context() as patched:
        patched.setattr(arrays, "compute_digest", None)  # arrays are written, and the root is not
        with pytest.raises(TypeError):
            save(pca, path, overwrite=True)
    assert len(Location(path).list_names()) == 3
    save(pca, path, overwrite=True)
    assert len(Location(path).list_names()) == 2
