"""Every estimator that fits is kept alike: the same bits with and without, and nothing is summarized twice."""

import inspect

import pytest
from scipy import sparse

import dspectral
from dspectral import checkpoints, write_counts
from dspectral.engine.around.callbacks import PassStarted
from tests.contracts import CASES
from tests.engine.recording import Recorder
from tools import same_bits

FITTED = [name for name in CASES if "checkpoints" in inspect.signature(getattr(dspectral, name).fit).parameters]
NO_PASSES = {"NgramHashing", "WordVectorRepresentation"}
MAPPED = {"weigh", "scale", "vectors"}
"""Passes that leave a row for each row: they are made again."""


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("name", FITTED)
@pytest.mark.filterwarnings("ignore")
def test_fit_with_checkpoints_equals_the_fit_without(name, lazily, tmp_path):
    X, y = CASES[name].data()
    if lazily:
        if not sparse.issparse(X):
            pytest.skip("lazy rows are made of a store of counts")
        X = write_counts(X, str(tmp_path / "store"), block_rows=7)
    fit = lambda: CASES[name].make().fit(X, y)  # noqa: E731
    expected = same_bits.bits(fit())
    passes = []
    for _ in range(2):
        heard = []
        with Recorder(heard.append), checkpoints(tmp_path / "kept"):
            assert same_bits.bits(fit()) == expected
        passes.append([event for event in heard if isinstance(event, PassStarted) and event.name not in MAPPED])
    assert [one.n_kept for one in passes[0]] == [0] * len(passes[0])
    assert [one.n_kept for one in passes[1]] == [one.n_blocks for one in passes[1]]


def test_every_fit_takes_the_argument_but_those_that_make_no_pass():
    assert set(CASES) - set(FITTED) == NO_PASSES
    for name in FITTED:  # written in the method itself, and not added by a decorator
        method = inspect.unwrap(getattr(dspectral, name).fit)
        assert inspect.signature(method).parameters["checkpoints"].default is None
        assert "checkpoints : str or Path, optional" in method.__doc__
