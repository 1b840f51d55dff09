"""scikit-learn's own tests of PCA, TruncatedSVD and IncrementalPCA, which are installed with it, run against ours."""

import importlib

import numpy as np
import pytest

import dspectral

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
MLE = "the number of components is given, or the share of the variance: Minka's estimate is refused"
SPARSE = "sparse rows are taken, by every solver"
SAYS = "refused in other words"
OTHERS = {
    "test_too_many_components[arpack-55]": "as many components as columns are found",
    "test_incremental_pca_sparse": "partial_fit takes sparse rows, which the test's end wants refused",
    "test_incremental_pca_validation": SAYS,
    "test_incremental_pca_set_params": "a grown model keeps the number of components that it has",
    "test_sparse_pca_solver_error": SPARSE,
    "test_pca_validation[arpack-0-": SAYS,
    "test_pca_validation[randomized-0-": SAYS,
    "test_pca_validation[arpack-2-": "all directions are found, by this name too",
    "test_pca_validation[auto-3-": "components beyond the rows are zero, after a warning",
    "test_n_components_none[data0-arpack": "all directions are found, by this name too",
    "test_n_components_none[data1-arpack": "all directions are found, by this name too",
    "test_n_components_mle": MLE,
    "test_pca_dim": MLE,
    "test_mle_redundant_data": MLE,
    "test_fit_mle_too_few_samples": MLE,
    "test_mle_simple_case": MLE,
    "test_pca_score3": "a model of no components is refused",
    "test_pca_score[": "whitening changes no likelihood here; the test's end wants that it does",
    "test_pca_svd_solver_auto": "an attribute without a name for users, _fit_svd_solver",
}
"""Beginnings of names of tests that do not pass, and why."""


class IncrementalPCA(dspectral.PCA):
    """Ours grows block by block by itself: the size of a batch says nothing."""

    def __init__(self, n_components=None, *, whiten=False, copy=True, batch_size=None):
        super().__init__(n_components, whiten=whiten, copy=copy)
        self.batch_size = batch_size

    n_passes = sketch_size = n_oversamples = None
    svd_solver = iterated_power = power_iteration_normalizer = "auto"
    tol, random_state = 0.0, 0


OURS = {"PCA": dspectral.PCA, "TruncatedSVD": dspectral.TruncatedSVD, "IncrementalPCA": IncrementalPCA}


def own_tests(name):
    """Tests of a module, with our classes in it, but those of other arrays than NumPy's."""
    module = importlib.import_module(f"sklearn.decomposition.tests.{name}")
    vars(module).update({key: ours for key, ours in OURS.items() if key in vars(module)})
    found = {key: test for key, test in vars(module).items() if key.startswith("test_") and "array_api" not in key}
    return {key if key not in globals() else f"{key}_of_{name}": test for key, test in found.items()} | {
        key: vars(module)[key] for key in ("X_sparse",) if key in vars(module)
    }


for of in ("test_pca", "test_truncated_svd", "test_incremental_pca"):
    globals().update(own_tests(of))


@pytest.fixture
def global_random_seed():
    """scikit-learn's own default."""
    np.random.seed(0)  # noqa: NPY002  some tests draw from it
    return 42


@pytest.fixture
def global_dtype():
    """scikit-learn's own default."""
    return np.float64


@pytest.fixture(autouse=True)
def known(request):
    for beginning, reason in OTHERS.items():
        if request.node.name.startswith(beginning):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
