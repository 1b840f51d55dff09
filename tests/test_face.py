import subprocess
import sys

import pytest

import dspectral


def test_every_public_name_is_there_and_is_imported_when_asked_for():
    places = [name for names in dspectral._PLACES.values() for name in names]
    assert sorted([*places, "__version__"]) == sorted(dspectral.__all__) == dir(dspectral)
    for name in places:
        assert getattr(dspectral, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SketchedPAC'"):
        dspectral.SketchedPAC  # noqa: B018


def test_a_worker_that_hashes_or_sketches_does_not_hold_scikit_learn():
    program = (
        "import sys, dspectral.decomposition.frequent_directions, dspectral.store.text_files, dspectral.engine;"
        "print(*{'sklearn', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules));"
        "import workflows.build_store; print(*{'sklearn', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
