"""What every scikit-learn user takes for granted, asked of every estimator."""

import inspect
import warnings
from contextlib import suppress
from functools import cache

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import SkipTestWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator
from threadpoolctl import threadpool_limits

import dspectral
from dspectral.inputs import SparseOutput
from tests.contracts import CASES, EXPECTED_FAILURES, NO_CHECKS
from tests.test_persistence import assert_same
from tools import same_bits

SEEDED = [name for name in CASES if "random_state" in inspect.signature(getattr(dspectral, name)).parameters]
TRANSFORMERS = [name for name in CASES if hasattr(getattr(dspectral, name), "transform")]
OF_KIND = {
    kind: [name for name in CASES if CASES[name].kind == kind] for kind in ("rows", "texts", "sentences", "tagged")
}
NOT_FITTED = {"NgramHashing", "WordVectorRepresentation"}


def fitted(name, **parameters):
    return CASES[name].make(**parameters).fit(*CASES[name].data())


def result(name, model, X=None):
    return as_array(CASES[name].result(model, CASES[name].data()[0] if X is None else X))


def assert_bits_stay(fit):
    """Fit with 1, 2 and 3 workers, and 1, 2 and 4 threads of BLAS."""
    bits = []
    for n_workers, n_threads in ((1, 1), (2, 2), (3, 4)):
        workers = {"scheduler": "threads" if n_workers > 1 else "sync", "num_workers": n_workers}
        with dask.config.set(workers), threadpool_limits(n_threads, user_api="blas"):
            bits.append(same_bits.bits(fit()))
    assert bits[0] == bits[1] == bits[2]


def as_array(values):
    values = values.compute() if isinstance(values, da.Array) else values
    if isinstance(values, pd.DataFrame):
        return values.to_numpy()
    if sparse.issparse(values):
        return values.toarray()
    if isinstance(values, list):
        return np.array([value for row in values for value in (row if not isinstance(row, str) else [row])])
    return np.asarray(values)


def test_every_public_estimator_has_a_case():
    public = {name for name in dspectral.__all__ if hasattr(getattr(dspectral, name), "fit")}
    assert public == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_fit_keeps_parameters_and_a_clone_has_nothing_else(name):
    model = CASES[name].make()
    before = {key: repr(value) for key, value in model.get_params(deep=False).items()}
    model = fitted(name)
    assert {key: repr(value) for key, value in model.get_params(deep=False).items()} == before
    copy = clone(model)
    assert vars(copy).keys() == before.keys()
    assert {key: repr(value) for key, value in copy.get_params(deep=False).items()} == before


@pytest.mark.parametrize("name", SEEDED)
def test_a_random_state_of_any_kind_is_resolved_once(name):
    free = fitted(name, random_state=None)
    assert isinstance(free.random_state_, int)
    again = fitted(name, random_state=free.random_state_)
    np.testing.assert_array_equal(result(name, free), result(name, again))
    one, other = (fitted(name, random_state=np.random.RandomState(3)) for _ in range(2))
    np.testing.assert_array_equal(result(name, one), result(name, other))
    with pytest.raises(TypeError, match=r"random_state.*'today'"):
        fitted(name, random_state="today")


RECIPES = {
    "IntentClassifier": dspectral.IntentRecipe,
    "LocalLSI": dspectral.LocalRecipe,
    "MomentMultiLabelClassifier": dspectral.MultiLabelRecipe,
    "RefinementHMM": dspectral.RefinementRecipe,
    "SentenceRepresentation": dspectral.SentenceRecipe,
    "WordEmbedding": dspectral.EmbeddingRecipe,
}
ANYTHING = {"center", "counts", "distance_weighting", "plus", "stop_words", "whiten"}
"""Parameters that are true or false of any value, or any collection."""
OTHERS = {
    "IntentClassifier": {"representation"},
    "SentenceRepresentation": {"ngram_range"},
    "TreePCA": {"vectors"},
    "WordVectorRepresentation": {"words", "vectors", "weight", "n_features"},
}
"""Parameters with tests of their own."""
PARAMETERS = [
    (name, parameter, "")
    for name, case in CASES.items()
    for parameter in case.make().get_params(deep=False)
    if parameter not in ANYTHING | OTHERS.get(name, set())
]
PARAMETERS += [
    (name, field, "recipe")
    for name, recipe in RECIPES.items()
    for field in recipe._fields
    if field not in ANYTHING | {"b", "memory", "run_memory", "n_contexts"}
]


@pytest.mark.parametrize(("name", "parameter", "recipe"), PARAMETERS)
def test_a_parameter_of_the_wrong_type_is_named(name, parameter, recipe):
    given = {"recipe": RECIPES[name]()._replace(**{parameter: Column}) if recipe else {parameter: Column}}
    with pytest.raises((TypeError, ValueError), match=rf"^{parameter}\b|'{parameter}' parameter"):
        fitted(name, **(given if recipe else given["recipe"]))


@pytest.mark.parametrize("name", CASES)
def test_saving_brings_back_the_same_model(name, tmp_path):
    model = fitted(name)
    dspectral.save(model, str(tmp_path / "model"))
    loaded = dspectral.load(str(tmp_path / "model"))
    assert_same(loaded, model)
    np.testing.assert_array_equal(result(name, loaded), result(name, model))


@pytest.mark.parametrize("name", [name for name in TRANSFORMERS if CASES[name].kind in ("rows", "texts")])
def test_transformer_works_in_a_pipeline_and_on_columns_of_a_frame(name):
    X, y = CASES[name].data()
    line = make_pipeline(CASES[name].make(), "passthrough")
    actual = as_array(line.fit(X, y).transform(X))
    np.testing.assert_array_equal(actual, as_array(fitted(name).transform(X)))
    if CASES[name].kind == "texts":
        frame, columns = pd.DataFrame({"other": np.arange(len(X)), "text": X}), "text"
    else:
        dense = as_array(X)
        frame = pd.DataFrame(dense, columns=[f"word{i}" for i in range(dense.shape[1])])
        columns = list(frame.columns)
    table = ColumnTransformer([("ours", CASES[name].make(), columns)], sparse_threshold=0.0)
    np.testing.assert_allclose(as_array(table.fit_transform(frame, y)), actual, atol=1e-6)


@pytest.mark.parametrize("name", [*TRANSFORMERS, "embedder"])
def test_names_are_those_of_the_columns_and_frames_have_them(name):
    X, y = CASES["NgramHashing" if name == "embedder" else name].data()
    model = dspectral.embedder(2).fit(X) if name == "embedder" else fitted(name)
    plain, names = as_array(model.transform(X)), list(model.get_feature_names_out())
    assert len(names) == plain.shape[1]
    frame = model.set_output(transform="pandas").transform(X)
    if isinstance(model, SparseOutput):  # rows stay sparse, for the next step of a Pipeline
        assert sparse.issparse(frame)
        return
    assert list(frame.columns) == list(clone(model).fit_transform(X, y).columns) == names
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    if CASES.get(name, CASES["NgramHashing"]).kind == "rows" and name != "VectorQuantizer":  # lazy rows stay lazy
        assert isinstance(model.transform(da.from_array(as_array(X), chunks=(10, -1))), da.Array)


@pytest.mark.parametrize("name", [name for name in CASES if is_classifier(CASES[name].make())])
def test_classifier_has_classes_a_score_and_dense_probabilities(name):
    X, y = CASES[name].data()
    model = fitted(name)
    assert len(model.classes_) >= 2
    assert 0.5 <= model.score(X, y) <= 1.0
    if hasattr(model, "predict_proba") and CASES[name].kind != "tagged":
        actual = model.predict_proba(X)
        assert isinstance(actual, np.ndarray)
        assert actual.shape == (len(y), len(model.classes_))
        assert ((actual >= 0) & (actual <= 1 + 1e-9)).all()


@pytest.mark.parametrize("name", [name for name in OF_KIND["rows"] if name not in ("VectorQuantizer", "TreePCA")])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float16", "float32"])
def test_rows_of_any_type_give_the_same_in_memory_and_lazily(name, dtype):
    X, y = CASES[name].data()
    dense = (as_array(X) > 0 if dtype == "bool" else as_array(X)).astype(dtype)
    expected = widely(name, dtype == "bool", wide_type(dtype))
    actual = CASES[name].make().fit(dense, y)
    np.testing.assert_allclose(numbers(result(name, actual, dense)), numbers(expected), atol=1e-5)
    lazy = CASES[name].make().fit(da.from_array(dense, chunks=(10, -1)), y)
    np.testing.assert_allclose(numbers(result(name, lazy, dense)), numbers(expected), atol=1e-4)
    if dtype == "float16":
        return  # SciPy has no sparse matrices of it
    csr_blocks = da.from_array(dense, chunks=(10, -1)).map_blocks(sparse.csr_array)
    lazily = CASES[name].make().fit(csr_blocks, y)
    np.testing.assert_allclose(numbers(result(name, lazily, dense)), numbers(expected), atol=1e-4)


@pytest.mark.parametrize("name", [name for name in OF_KIND["rows"] if name != "VectorQuantizer"])
def test_threads_give_the_same_bits_and_read_each_block_once_a_pass(name):
    X, y = CASES[name].data()
    reads, n_passes = [], []

    def read(block):
        reads.append(len(block))
        return block

    rows = da.from_array(as_array(X), chunks=(5, -1)).map_blocks(read, meta=np.empty((0, 0)))

    def fit():
        model = CASES[name].make().fit(rows, y)
        n_passes.append(model.n_passes_)
        return model

    assert_bits_stay(fit)
    if name != "Topics":  # whose documents' own rows are read again
        assert len(reads) == 8 * sum(n_passes)


@pytest.mark.parametrize("name", sorted({*OF_KIND["texts"], *OF_KIND["tagged"], "VectorQuantizer"} - NOT_FITTED))
def test_threads_of_blas_change_no_bits_in_memory(name):
    assert_bits_stay(lambda: fitted(name))


@pytest.mark.parametrize("name", OF_KIND["sentences"])
def test_threads_give_the_bits_of_one_thread_over_a_corpus(name, tmp_path):
    X, _ = CASES[name].data()
    (tmp_path / "text").write_text("".join(" ".join(sentence) + "\n" for sentence in X))
    corpus = dspectral.build_corpus(str(tmp_path / "text"), str(tmp_path / "corpus"), block_bytes=200)
    assert corpus.n_blocks > 3
    assert_bits_stay(lambda: CASES[name].make().fit(corpus))


@cache
def reference(name):
    return result(name, fitted(name))


@cache
def widely(name, binary, dtype):
    """What a case gives of its rows as floating-point numbers, or of whether these are above 0."""
    X, y = CASES[name].data()
    dense = (as_array(X) > 0 if binary else as_array(X)).astype(dtype)
    return result(name, CASES[name].make().fit(dense, y), dense)


def wide_type(dtype):
    return np.float32 if dtype == "float32" else np.float64


def numbers(values):
    """Numbers as they are up to sign of columns; classes by their order."""
    return np.abs(values) if values.dtype.kind in "biuf" else np.unique(values, return_inverse=True)[1]


class Column:
    """A column as data sets of other libraries have it: a length, items and an iterator, and no more."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]

    def __iter__(self):
        return iter(self.values)


def columns(X):
    polars = pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    return {
        "tuple": tuple(X),
        "pandas": pd.Series(X, index=range(7, 7 + len(X))),
        "polars": polars.Series(X),
        "arrow": arrow.chunked_array([X]),
        "generator": (x for x in X),
        "column": Column(X),
        **({"numpy": np.array(X)} if isinstance(X[0], str) else {}),
    }


@pytest.mark.parametrize("name", OF_KIND["texts"] + OF_KIND["sentences"])
@pytest.mark.parametrize("kind", ["tuple", "pandas", "polars", "arrow", "generator", "column", "numpy"])
def test_texts_and_sentences_come_in_columns_of_any_kind(name, kind):
    X, y = CASES[name].data()
    given = columns(X)
    if kind not in given:
        return  # sentences of different lengths are no array
    np.testing.assert_array_equal(result(name, CASES[name].make().fit(given[kind], y)), reference(name))


METHODS = ("transform", "predict", "predict_proba", "decision_function", "inverse_transform", "score")


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_fits_and_predicts_where_numpy_raises(name):
    """Errors of NumPy that a user has asked for end no estimator."""
    X, y = CASES[name].data()
    model = CASES[name].make()
    # Blocks are computed in this thread, where NumPy's setting holds.
    with dask.config.set(scheduler="sync"), np.errstate(all="raise"):
        model = model.fit(X, y)
        transformed = as_array(CASES[name].result(model, X))
        for method in METHODS:
            if hasattr(model, method):
                given = transformed if method == "inverse_transform" else X
                with suppress(TypeError, ValueError, NotImplementedError):
                    as_array(getattr(model, method)(given, *([y] if method == "score" and y is not None else [])))


NEED_NO_DATA = (
    "no_attributes",
    "get_params",
    "set_params",
    "cloneable",
    "parameters_default",
    "repr",
    "valid_tag_types",
)


def checks():
    for name, case in CASES.items():
        given = EXPECTED_FAILURES.get(name, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkipTestWarning)  # of the estimators in NO_CHECKS
            found = list(estimator_checks_generator(case.make(), legacy=name not in NO_CHECKS))
        for model, check in found:
            label = getattr(check, "func", check).__name__
            if name in NO_CHECKS and not any(word in label for word in NEED_NO_DATA):
                continue
            marks = [pytest.mark.xfail(reason=given[label], strict=True)] if label in given else []
            yield pytest.param(model, check, id=f"{name}-{label}", marks=marks)


@pytest.mark.parametrize(("model", "check"), list(checks()))
def test_scikit_learn_finds_nothing_wrong(model, check):
    check(model)
