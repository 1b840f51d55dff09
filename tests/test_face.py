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
