import subprocess
import sys

import pytest

import dspectral
from dspectral import (
    dashboard,
    datasets,
    decomposition,
    engine,
    io,
    metrics,
    plotting,
    pp,
    store,
    text,
    watch,
)

PACKAGES = {
    "dashboard": dashboard,
    "datasets": datasets,
    "decomposition": decomposition,
    "engine": engine,
    "io": io,
    "metrics": metrics,
    "plotting": plotting,
    "pp": pp,
    "store": store,
    "text": text,
    "watch": watch,
}


def test_every_public_name_is_there_and_is_imported_when_asked_for():
    names = set(dspectral.__all__) - PACKAGES.keys()
    assert names >= {"TruncatedSVD", "build_store", "load", "read_word2vec", "save"}
    for name in names:
        assert getattr(dspectral, name).__name__ == name
    assert dspectral.__version__
    assert sorted(dspectral.__all__) == dir(dspectral)


@pytest.mark.parametrize("package", [dspectral, io, store])
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="SketchedPAC"):
        package.SketchedPAC  # noqa: B018


LIGHT = [
    ("dspectral; dspectral.io; dspectral.store", {"sklearn", "numba", "numpy", "dask", "zarr", "scipy"}),
    ("dspectral.engine", {"sklearn", "dask", "zarr"}),
    ("dspectral.io; dspectral.io.read_conll; dspectral.store.StoreError", {"sklearn", "numba"}),
    (
        "dspectral.decomposition.frequent_directions, dspectral.store.from_text.text_files, dspectral.engine",
        {"sklearn", "pandas", "pyarrow", "matplotlib"},
    ),
    (
        "dspectral.decomposition.estimators, dspectral.methods.embeddings, dspectral.plotting",
        {"numba", "matplotlib", "bokeh"},
    ),
]
"""What one process imports in turn, and what must not be there afterwards."""


@pytest.mark.slow
@pytest.mark.parametrize("steps", [LIGHT, [("workflows.build_store", {"sklearn", "pandas"})]])
def test_a_program_holds_only_the_packages_that_it_uses(steps):
    program = "import sys\n" + "".join(
        f"import {imports}\nprint({imports!r}, *{heavy!r} & set(sys.modules), sep='|')\n" for imports, heavy in steps
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [imports for imports, _ in steps]


BUILT = """
import pickle, sys
from dspectral import TruncatedSVD
from sklearn.base import clone
model = clone(TruncatedSVD(5)).set_params(n_passes=3)
assert model.get_params()["n_passes"] == 3 and pickle.loads(pickle.dumps(model)).n_components == 5
assert repr(model) == "TruncatedSVD(n_components=5, n_passes=3)"
print(*{"dask", "distributed", "fsspec", "numba", "zarr"} & set(sys.modules))
model.fit([[float(i == j) * (i + 1) for j in range(5)] for i in range(5)])
print(*{"dask", "fsspec", "numba", "zarr"} & set(sys.modules))
"""


@pytest.mark.slow
def test_an_estimator_is_built_without_what_only_its_fit_needs():
    done = subprocess.run([sys.executable, "-W", "error", "-c", BUILT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "dask"]
