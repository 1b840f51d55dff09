"""The Nystrom sketch: its certificate is never below the true error, and sketches add up."""

import os

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD, load, save
from dspectral.decomposition import nystrom
from dspectral.decomposition.nystrom import find_pilot_basis, select_pilot_blocks
from tests.decomposition.hostile_draws import clustered, geometric, large_means
from tests.decomposition.test_estimators import csr_blocks
from tests.strategies import zipf_counts


def noise(rng):
    return rng.standard_normal((int(rng.integers(8, 60)), int(rng.integers(4, 41)))) + rng.choice([0.0, 3.0])


KINDS = (clustered, geometric, large_means, noise)
ROWS = zipf_counts(300, 50, 12, n_topics=3)


def draw_blocks(seed):
    """Draw blocks of rows, alike or sorted by length, and whether they are centered."""
    rng = np.random.default_rng(seed)
    rows = np.asarray(KINDS[seed % len(KINDS)](rng)[:, :40]).astype(rng.choice([np.float32, np.float64]))
    if rng.random() < 0.3:
        rows = rows[np.argsort(np.linalg.norm(rows, axis=1) * rng.choice([-1, 1]))]
    if rng.random() < 0.3:
        rows *= rng.random(rows.shape) < 0.2
    kind = sparse.csr_array if rng.random() < 0.5 else np.asarray
    return [kind(part) for part in np.array_split(rows, 4)], bool(rng.random() < 0.5)


def check_certificate(seed):
    """Check one draw; return the bound over the true error, or 0 if that is within rounding."""
    blocks, center = draw_blocks(seed)
    d = blocks[0].shape[1]
    k = 1 + seed % min(4, d)
    model = SketchedPCA(k, center=center, solver="nystrom", sketch_size=k + seed % 3, random_state=seed)
    for block in blocks:  # the first block is the pilot
        model.partial_fit(block)
    A = np.concatenate([sparse.csr_array(block).toarray() for block in blocks]).astype(np.longdouble)
    A = A - A.mean(axis=0) * center
    C = A.T @ A
    values, certificate = np.linalg.eigvalsh(C.astype(np.float64))[::-1], model.certificate_
    energy, sketch = float(np.trace(C)), model.summary_
    added = (int(sketch.center) - int(center)) * sketch.n_rows
    best = sketch.approximate(k, added)
    B = best.product.astype(np.longdouble) @ best.coefficients
    error = (C - B @ B.T).astype(np.float64)
    true = np.sort(np.abs(np.linalg.eigvalsh(error)))[::-1]
    formed = float(np.square(np.concatenate([b.toarray() if sparse.issparse(b) else b for b in blocks])).sum())
    rounding = 64 * np.finfo(np.float64).eps * formed
    assert true[0] <= certificate.absolute + rounding
    assert (true[:k] <= best.bounds + rounding * best.amplification).all()
    n = min(k, len(values))
    assert np.abs(values[:n] - model.singular_values_[:n] ** 2).max() <= certificate.absolute + rounding
    nonzero = (model.components_ != 0).any(axis=1)
    axes = np.linalg.qr(model.components_[nonzero].T.astype(np.float64))[0]  # rounded to single precision
    lost = float(values[:n].sum() - np.square(A @ axes).sum())
    assert lost <= certificate.lost * energy + rounding + 1e-12 * energy
    return certificate.absolute / true[0] if true[0] > 1e-4 * energy else 0.0


N_DRAWS = int(os.environ.get("N_DRAWS", "400"))
"""Number of random matrices; 2,000 take 90 s: ``N_DRAWS=2000 make test-all``."""


@pytest.mark.filterwarnings("ignore:explained_variance_")
@pytest.mark.filterwarnings("ignore:n_components is")
@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, N_DRAWS), marks=pytest.mark.slow)], ids=["60", "more"]
)
def test_certificate_exceeds_every_error_and_rarely_four_times_it(seeds):
    with dask.config.set(scheduler="sync"):
        ratios = np.array([check_certificate(seed) for seed in seeds])
    ratios = ratios[ratios > 0]
    assert len(ratios) > len(seeds) / 3
    assert ratios.min() >= 1.0
    assert np.median(ratios) < 2.5
    assert np.mean(ratios < 4.0) > 0.95


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_added_rows__give_the_sums_of_all_rows_in_any_order_and_tree(kind, center):
    rows = kind(ROWS.toarray().astype(np.float64))
    start = SketchedPCA(3, center=center, solver="nystrom", sketch_size=20).partial_fit(rows[:110])
    first, V = start.summary_, start.summary_.basis
    W = nystrom.draw_probes(50, 0)
    b, c = (nystrom.NystromSketch.from_block(rows[a:z], basis=V, probes=W) for a, z in ((110, 200), (200, 300)))
    grown = start.partial_fit(rows[110:200]).partial_fit(rows[200:])
    assert grown.n_samples_seen_ == 300
    dense = ROWS.toarray().astype(np.float64)
    A = dense - dense.mean(axis=0) if sparse.issparse(rows) is False else dense
    for merged in (first.merge(b, c), first.merge(c).merge(b), first.merge(b.merge(c)), grown.summary_):
        assert merged.n_rows == 300
        for part, factor in ((merged.products, V), (merged.probes, W)):
            np.testing.assert_allclose(part.product, A.T @ (A @ factor), rtol=1e-9, atol=1e-9)


def test_sketches_of_different_bases__cannot_be_merged():
    one, other = (TruncatedSVD(2, solver="nystrom", random_state=seed).partial_fit(ROWS).summary_ for seed in (0, 1))
    with pytest.raises(ValueError, match=r"2 sketches.*bases or seeds"):
        one.merge(other)
    with pytest.raises(ValueError, match=r"2 sketches.*bases or seeds"):
        one.merge(one._replace(basis=one.basis[::-1]))


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_bits__are_those_of_one_thread_with_any_scheduler_and_after_saving(scheduler, tmp_path):
    lazy = csr_blocks(ROWS.astype(np.float32), 40)
    with dask.config.set(scheduler="sync"):
        expected = TruncatedSVD(3, solver="nystrom").fit(lazy)
    with dask.config.set(scheduler=scheduler):
        actual = TruncatedSVD(3, solver="nystrom").fit(lazy)
    assert actual.components_.tobytes() == expected.components_.tobytes()
    assert actual.certificate_ == expected.certificate_
    save(actual, str(tmp_path / "model"))
    loaded = load(str(tmp_path / "model"))
    for model in (loaded, actual):
        model.partial_fit(ROWS[:90].astype(np.float32))
    assert loaded.components_.tobytes() == actual.components_.tobytes()


def test_pilot__is_spread_over_the_blocks_and_has_a_twentieth_of_many_rows():
    for seed in range(5):
        blocks, step = select_pilot_blocks((10_000,) * 200, seed)
        assert len(blocks) == len(set(blocks)) == 10
        assert all(20 * i <= block < 20 * (i + 1) for i, block in enumerate(blocks))
        assert step == 1
    assert select_pilot_blocks((100_000,) * 40, 0)[1] == 6  # 400,000 rows of four blocks, and 65,536 are enough
    assert select_pilot_blocks((50,) * 3, 0) == ([0, 1, 2], 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fault", ["none", "rank", "zero", "nan", "empty"])
def test_basis__is_orthonormal_whatever_the_pilot_holds(fault, dtype):
    rows = np.random.default_rng(0).standard_normal((60, 30)).astype(dtype) * dtype(1e-18)
    rows = {
        "none": rows,
        "rank": rows[:2],
        "zero": 0 * rows,
        "nan": rows * np.nan,
        "empty": rows[:0],
    }[fault]
    V = find_pilot_basis(sparse.csr_array(rows), 12, center=False, seed=0, dtype=dtype)
    assert (V.shape, V.dtype) == ((30, 12), dtype)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=1e-5 if dtype == np.float32 else 1e-12)
    if fault == "rank":
        inside = rows @ V / np.linalg.norm(rows)
        np.testing.assert_allclose(np.linalg.norm(inside), 1.0, rtol=1e-5)


def test_pilot__finds_more_than_a_random_start():
    spectrum = np.concatenate([np.full(10, 100.0), np.ones(190)])
    rows = np.random.default_rng(0).standard_normal((2000, 200)) * np.sqrt(spectrum)
    lazy, best = da.from_array(rows, chunks=(100, -1)), np.linalg.norm(rows, 2)
    actual = TruncatedSVD(10, solver="nystrom", sketch_size=20).fit(lazy)
    energy = np.linalg.svd(rows, compute_uv=False)[:10] ** 2
    lost = 1.0 - np.square(rows @ actual.components_.T).sum() / energy.sum()
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 20)))[0]
    start = np.linalg.svd(rows.T @ (rows @ W), full_matrices=False)[0][:, :10]
    assert lost < 0.2 * (1.0 - np.square(rows @ start).sum() / energy.sum())
    assert actual.singular_values_[0] <= best * (1 + 1e-12)
