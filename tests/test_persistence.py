import errno
import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
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
from dspectral import HybridLSI, NgramHashing, SketchedPCA, TfidfWeighting, TruncatedSVD, load, save
from dspectral.persistence import models
from dspectral.persistence.encoding import find_class
from dspectral.persistence.models import import_all
from dspectral.store import arrays
from dspectral.store.array_files import group_metadata
from dspectral.store.arrays import read_stored_group, write_stored_group
from dspectral.store.location import Location, StoreError
from dspectral.store.lock import hold_write_lock
from dspectral.summary_files import _resolve_container
from dspectral.text.tokenizers import Tokenizer
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

    def keep(self, value):
        self.extra_ = value
        return self


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
    edited(path, lambda head, _: head.update({"class": "elsewhere.MyPCA"}))
    with pytest.raises(ValueError, match=r"'elsewhere\.MyPCA'"):
        load(path)
    assert type(load(path, classes=[MyPCA])) is MyPCA


ELSEWHERE = """
import dask, json, logging, sys, threading
before = dict(dask.config.config)
from dspectral import *
effects = {
    "configuration": dask.config.config != before,
    "threads": threading.active_count() - 1,
    "handlers": len(logging.getLogger().handlers),
    "distributed": "distributed" in sys.modules,
}
bits = load(sys.argv[1]).singular_values_.tobytes().hex()
try:
    load(sys.argv[2])
except ValueError as error:
    print(json.dumps({"effects": effects, "bits": bits, "refused": str(error)}))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """What another process says of importing the library, of a model, and of one whose class it has not imported."""
    folder = tmp_path_factory.mktemp("elsewhere")
    known = TruncatedSVD(3, solver="frequent_directions").fit(zipf_counts(60, 40, 8))
    save(known, str(folder / "model"))
    save(make_pipeline(StandardScaler(), MyPCA(1)).fit(np.eye(4)), str(folder / "pipeline"))
    command = [sys.executable, "-c", ELSEWHERE, str(folder / "model"), str(folder / "pipeline")]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return {**json.loads(found.stdout), "known": known.singular_values_.tobytes().hex()}


@pytest.mark.slow
def test_a_subclass_in_a_pipeline_that_is_not_imported_is_named_in_another_process(elsewhere):
    assert "'tests.test_persistence.MyPCA'" in elsewhere["refused"]


def test_a_file_that_names_a_module_does_not_import_it(path, pca):
    save(pca, path)
    edited(path, lambda head, _: head.update({"class": "antigravity.MyPCA"}))
    with pytest.raises(ValueError, match=r"'antigravity.MyPCA'"):
        load(path)
    assert "antigravity" not in sys.modules


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
        _resolve_container,
        lambda name: find_class(name.replace(":", "."), (), ""),
        lambda name: Tokenizer(name).resolve(),
    )
    taken = []
    for path, door in product(paths, doors):
        with suppress(ValueError, TypeError, AttributeError):
            taken.append((path, door(path)))
    assert len(paths) > 10_000
    assert taken == []
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
    ],
    ids=lambda value: f"{type(value).__name__} {value!r}"[:40].replace("\0", "0"),
)
def test_a_value_of_each_kind_comes_back_the_same(tmp_path, mine, value):
    mine.keep(value)
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
    mine.keep(value)
    with pytest.raises(TypeError, match=message):
        save(mine, str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


def test_only_fitted_estimators_of_known_classes_are_saved(tmp_path):
    with pytest.raises(TypeError, match=r"KBinsDiscretizer.*IntentClassifier, "):
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
    assert sorted(left) == ["arrays-0001", "arrays-theirs"]


def test_a_folder_of_pickles_that_a_file_names_is_left_alone(path):
    save(make_pipeline(StandardScaler(), memory="pickles").fit(np.eye(3)), path)
    assert load(path).memory is None


def test_a_first_save_that_was_killed_is_made_again_in_the_same_place(tmp_path, pca):
    (tmp_path / "zarr.json").write_bytes(group_metadata())
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
@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox])
@pytest.mark.parametrize("position", [-1, 10**9, "null", 1.5])
def test_a_random_state_outside_of_its_key_is_refused(path, mine, kind, position):
    mine.keep(np.random.Generator(kind(3)))
    save(mine, path)

    def move(head, _arrays):
        name = "pos" if kind is np.random.MT19937 else "buffer_pos"
        text = json.dumps(head["attributes"]["extra_"])
        changed = re.sub(rf'(\["{name}", )\d+', rf"\g<1>{position}", text)
        assert changed != text
        head["attributes"]["extra_"] = json.loads(changed)

    edited(path, move)
    with pytest.raises(ValueError, match=re.escape(path)):
        load(path)


def edited(path, change):
    where = Location(path)
    record = read_stored_group(where)
    arrays = [record.array(i) for i in range(record.attributes.get("n", 100)) if exists(path, i)]
    head = json.loads(json.dumps(record.attributes["dspectral_model"]))
    change(head, arrays)
    write_stored_group(where, {"dspectral_model": head}, arrays)


def exists(path, number):
    group = zarr.open_group(Location(path).open(), mode="r")
    return f"arrays-{group.attrs['generation']:04d}/{number}" in group


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head, _: head.update({"class": "Certificate"}), "'Certificate'"),
        (lambda head, _: head["attributes"]["certificate_"].update({"class": "Popen"}), "'Popen'"),
        (lambda head, _: head["attributes"]["mean_"].update({"kind": "pickle"}), "'pickle'"),
        (lambda head, _: head.update({"format": 3}), "format 3"),
        (lambda head, _: head["attributes"].update({"transform": "x"}), "attribute 'transform'"),
        (lambda head, _: head["attributes"].update({"__class__": None}), "attribute '__class__'"),
        (lambda head, _: head["attributes"].update({"n_components": 3}), "attribute 'n_components'"),
        (lambda head, _: head["attributes"].update({"_n_features_out": 3}), "attribute '_n_features_out'"),
        (lambda head, _: head["attributes"].update({"another_": 3}), "attribute 'another_'"),
    ],
)
def test_a_model_that_names_something_else_is_refused(path, pca, change, message):
    save(pca, path)
    edited(path, change)
    with pytest.raises(ValueError, match=message):
        load(path)


@pytest.mark.slow
@pytest.mark.parametrize(("part", "value"), [("indices", 3), ("indices", -1), ("indptr", 10**6), ("indptr", -1)])
def test_a_sparse_matrix_that_points_outside_is_refused(path, mine, part, value):
    mine.keep(sparse.csr_array(np.ones((4, 3))))
    save(mine, path)
    edited(path, lambda _, arrays: np.put(arrays[-2 if part == "indices" else -1], 1, value))
    with pytest.raises(ValueError, match=f"{re.escape(path)}.*sparse"):
        load(path)


@pytest.mark.slow
def test_a_model_loads_in_another_process(elsewhere):
    assert elsewhere["bits"] == elsewhere["known"]


@pytest.mark.slow
def test_every_public_name_is_there_and_import_has_no_effects(elsewhere):
    assert set(dspectral.__all__) <= set(dir(dspectral))
    assert not any(elsewhere["effects"].values()), elsewhere["effects"]


@pytest.mark.slow
@pytest.mark.parametrize("n_savers", [1, 3])
def test_loads_beside_overwrites_return_a_saved_model_whole(path, n_savers):
    fitted = [SketchedPCA(k).fit(zipf_counts(60, 40, 8)) for k in (1, 2, 3)]
    save(fitted[0], path)
    errors, n_running = [], [n_savers]

    def overwrite(seed):
        try:
            for number in np.random.default_rng(seed).integers(3, size=8):
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
    last = 8 * n_savers
    assert [name for name in Location(path).list_names() if name != "zarr.json"] == [f"arrays-{last:04d}"]


def test_a_reader_looks_at_the_root_again_until_it_is_the_same(path, pca, monkeypatch):
    save(pca, path)
    read, left = models._decode, [3]

    def replaced_first(record, *arguments):
        if left[0]:
            left[0] -= 1
            save(TruncatedSVD(1).fit(np.eye(3)), path, overwrite=True)
        return read(record, *arguments)

    monkeypatch.setattr(models, "_decode", replaced_first)
    assert type(load(path)) is TruncatedSVD
    left[0] = 2
    monkeypatch.setattr(models, "MAX_READS", 2)
    with pytest.raises(StoreError, match=f"{re.escape(path)}.*2 times"):
        load(path)
    edited(path, lambda head, _: head["attributes"]["components_"].update({"number": 10**6}))
    with pytest.raises(StoreError, match="1000000"):  # the root is still the same
        load(path)


def test_only_the_generation_that_was_read_is_removed(path, pca):
    save(pca, path)
    group = zarr.open_group(Location(path).open(read_only=False))
    group.create_array("arrays-0001", data=np.arange(3))
    group.create_group("arrays-0007").create_array("0", data=np.arange(4))
    for generation in (2, 3, 4, 5, 6, 8):
        save(pca, path, overwrite=True)
        assert_same(load(path), pca)
        names = [name for name in Location(path).list_names() if name.startswith("arrays-")]
        assert names == sorted(["arrays-0001", "arrays-0007", f"arrays-{generation:04d}"])
    assert group["arrays-0001"][:].tolist() == [0, 1, 2]
    assert group["arrays-0007/0"][:].tolist() == [0, 1, 2, 3]


def test_arrays_that_a_killed_save_left_are_removed_by_the_next(path, pca, monkeypatch):
    save(pca, path)
    with monkeypatch.context() as patched:
        patched.setattr(arrays, "compute_digest", None)  # arrays are written, and the root is not
        with pytest.raises(TypeError):
            save(pca, path, overwrite=True)
    assert "arrays-0001" in Location(path).list_names()
    save(pca, path, overwrite=True)
    assert [name for name in Location(path).list_names() if name != "zarr.json"] == ["arrays-0001"]


def test_a_saver_waits_for_another_one_and_is_told_of_it_after_a_while(path, pca, monkeypatch):
    where = Location.from_url(path)
    monkeypatch.setattr(models, "WAIT_SECONDS", 0.1)
    with hold_write_lock(where), pytest.raises(StoreError, match=re.escape(path)):
        save(pca, path)
    monkeypatch.setattr(models, "WAIT_SECONDS", 60.0)
    holding = threading.Event()

    def hold():
        with hold_write_lock(where):
            holding.set()
            time.sleep(0.2)

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait()
    save(pca, path)
    holder.join()
    assert_same(load(path), pca)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["x", None, [], {}, 0, -1, True, 1.5, 10**30])
def test_an_odd_format_is_refused_with_the_path(path, pca, form):
    save(pca, path)
    edited(path, lambda head, _: head.update({"format": form}))
    with pytest.raises(StoreError, match=f"{re.escape(path)}.*format"):
        load(path)


@pytest.mark.parametrize("text", ["[" * 10**5, '{"a":' * 10**5, "[]", "3", '"zarr"', "null", '{"attributes": 3}'])
@pytest.mark.parametrize("name", ["zarr.json", "arrays-0000/1/zarr.json"])
def test_metadata_that_are_none_are_refused_with_the_path(tmp_path, pca, name, text):
    save(pca, str(tmp_path / "model"))
    (tmp_path / "model" / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "model"))):
        load(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shape", [-1, 40]), ("shape", [10**12, 10**9]), ("shape", "x"), ("data_type", "x"),
        ("data_type", "complex128"),
        ("data_type", 7), ("chunk_grid", None), ("codecs", []), ("node_type", "group"), ("fill_value", "z"),
    ],
)  # fmt: skip
def test_odd_metadata_of_an_array_are_refused_with_the_path(tmp_path, pca, field, value):
    save(pca, str(tmp_path / "model"))
    file = tmp_path / "model" / "arrays-0000" / "1" / "zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(ValueError, match=rf"{re.escape(str(tmp_path / 'model'))}: array arrays-0000/1 "):
        load(str(tmp_path / "model"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shape", [-1]),
        ("shape", "x"),
        ("dtype", "x"),
        ("dtype", "O8,O8"),
        ("items", 3),
        ("order", "Q"),
        ("order", 3),
    ],
)
def test_odd_arrays_in_the_attributes_are_refused_with_the_path(path, field, value):
    save(HybridLSI(1, alpha=0.3).fit(np.eye(3) + 1, np.array(["a", "b", "a"])), path)
    name = "components_" if field == "order" else "classes_"
    edited(path, lambda head, _: head["attributes"][name].update({field: value}))
    with pytest.raises(ValueError, match=f"{re.escape(path)} "):
        load(path)


@pytest.mark.parametrize("function", [os.mkdir, open])
def test_a_full_table_of_inodes_is_answered_as_a_full_disk(tmp_path, pca, monkeypatch, function):
    def full(path, *arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "mkdir" if function is os.mkdir else "open", full)
    with pytest.raises(OSError, match=r"No space left.*model") as found:
        save(pca, str(tmp_path / "model"))
    assert found.value.errno == errno.ENOSPC
    assert str(found.value).count("No space left") == 1
