"""Certificates of any solver hold on rows of any type, location, scale, shape and container, against long doubles.

``python -m tests.decomposition.test_certificates 5000`` draws as many rows, and prints what was wrong with which seed.
"""

import sys
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import anndata
import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import PCA, SketchedPCA, TruncatedSVD, engine, open_store, write_counts
from tests.decomposition.test_estimators import csr_blocks

DTYPES = (np.float16, np.float32, np.float32, np.float64, np.float64, np.int8, np.uint16, np.int64, np.bool_)
CONTAINERS = ("numpy", "fortran", "memmap", "csr", "dask", "sparse dask", "store", "anndata", "h5ad")
SOLVERS = ("auto", "full", "gram", "in_memory", "krylov", "nystrom", "frequent_directions")
EXACT = ("full", "gram", "in_memory")
MARGIN = 200.0
"""Rounding of a squared value, over eps: 100 of a value."""
EPS = float(np.finfo(np.float64).eps)


class Drawn(NamedTuple):
    """Rows, what they are called, and the model that decomposes them."""

    rows: np.ndarray
    container: str
    model: object
    borders: tuple


def draw_rows(rng, dtype):
    """Draw rows of a type: far from the origin or not, with columns of other scales, zeros, constants, duplicates."""
    n, d = int(rng.integers(1, 4) if rng.random() < 0.15 else rng.integers(4, 40)), int(rng.integers(1, 10))
    n = d if rng.random() < 0.1 else n
    rows = rng.standard_normal((n, d)) @ (np.eye(d) if rng.random() < 0.5 else rng.standard_normal((d, d)))
    if rng.random() < 0.6:
        most = {2: 3, 4: 6}.get(dtype.itemsize, 8) if dtype.kind == "f" else 1
        rows = rows + 10.0 ** rng.uniform(0, most) * rng.choice([-1, 1], d)
    if rng.random() < 0.3:
        rows = rows * rng.choice([1.0, 10.0 ** rng.uniform(0, 3 if dtype.itemsize == 2 else 12)], d)
    if rng.random() < 0.3:
        rows = rows * (rng.random((n, d)) < rng.choice([0.1, 0.2, 0.6]))
    kinds = rng.choice(9, 2)
    if 0 in kinds:
        rows[:, rng.integers(d)] = rng.choice([0.0, 0.1, 1e4 / 3])
    if 1 in kinds:
        rows[:, rng.integers(d)] = rows[:, rng.integers(d)]
    if 2 in kinds:
        rows[:] = rows[0]
    if dtype.kind == "f" and dtype.itemsize > 2 and rng.random() < 0.5:
        rows = rows * 10.0 ** rng.uniform(-30, 30 if dtype.itemsize == 8 else 15)
    return in_type(rows, dtype)


def in_type(rows, dtype):
    """Return rows in a type, within its range."""
    if dtype.kind == "b":
        return rows > 0
    if dtype.kind in "iu":
        known = np.iinfo(dtype)
        rows = np.clip(np.round(rows), max(known.min, -(2.0**53)), min(known.max, 2.0**53))
    elif dtype.itemsize == 2:
        rows = np.clip(rows, -6e4, 6e4)
    return rows.astype(dtype)


def draw(seed):
    """Draw rows and a model."""
    rng = np.random.default_rng(seed)
    rows = draw_rows(rng, np.dtype(DTYPES[rng.integers(len(DTYPES))]))
    n, d = rows.shape
    solver, k = SOLVERS[rng.integers(len(SOLVERS))], int(rng.integers(1, d + 1))
    face = (PCA, TruncatedSVD, SketchedPCA)[rng.integers(3)]
    name = "svd_solver" if face is PCA else "solver"
    settings = {"center": bool(rng.random() < 0.5)} if face is SketchedPCA else {}
    if solver == "krylov":
        settings |= {"n_passes": int(rng.integers(1, 5))} if rng.random() < 0.5 else {"tol": 1e-3}
    borders = (0, n)
    if solver in ("auto", "full", "gram", "frequent_directions") and n > 3 and rng.random() < 0.4:
        borders = (0, *sorted(rng.choice(np.arange(1, n), 2, replace=False).tolist()), n)
    return Drawn(rows, CONTAINERS[rng.integers(len(CONTAINERS))], face(k, **{name: solver}, **settings), borders)


def contained(rows, container, folder, step):
    """Return rows in a container, and as they are read from it."""
    csr = sparse.csr_array(rows.astype(np.float64) if rows.dtype == np.float16 else rows)
    if container == "memmap":
        path = str(Path(folder) / "rows.npy")
        np.save(path, rows)
        return np.load(path, mmap_mode="r"), rows
    if container in ("anndata", "h5ad"):
        written = str(Path(folder) / f"rows{len(list(Path(folder).iterdir()))}.h5ad")
        anndata.AnnData(sparse.csr_matrix(csr) if container == "h5ad" else rows).write_h5ad(written)
    if container in ("store", "h5ad"):
        whole, url = csr.astype(np.float64), f"memory://certificates{folder}"
        with np.errstate(over="ignore"), warnings.catch_warnings(), dask.config.set(scheduler="sync"):
            warnings.simplefilter("ignore")
            try:
                opened = (
                    open_store(written)
                    if container == "h5ad"
                    else write_counts(whole, url, block_rows=step, signed=True)
                )
                read = np.asarray(engine.as_dask_rows(opened).compute().toarray())
            except ValueError:
                return rows, rows  # out of the range of a store, or integers that a file's blocks do not hold
        return (opened, read) if np.isfinite(read).all() else (rows, rows)
    others = {
        "numpy": lambda: rows,
        "fortran": lambda: np.asfortranarray(rows),
        "csr": lambda: csr,
        "dask": lambda: da.from_array(rows, chunks=(step, -1)),
        "sparse dask": lambda: csr_blocks(csr, step),
        "anndata": lambda: da.from_array(anndata.read_h5ad(written, backed="r").X, chunks=(step, -1), name=False),
    }
    return others[container](), rows


def rotated(rows):
    """Return singular values by one-sided Jacobi rotations in long doubles, largest first."""
    A = rows if rows.shape[0] >= rows.shape[1] else rows.T
    A = [column.copy() for column in A.T if column.any()]
    for _ in range(40):
        most = 0.0
        for i in range(len(A) - 1):
            for j in range(i + 1, len(A)):
                a, b, c = A[i] @ A[i], A[j] @ A[j], A[i] @ A[j]
                if a * b == 0 or abs(c) < 1e-19 * np.sqrt(a * b):
                    continue
                most = max(most, float(abs(c) / np.sqrt(a * b)))
                z = (b - a) / (2 * c)
                t = (1 if z >= 0 else -1) / (abs(z) + np.sqrt(1 + z * z))
                cos = 1 / np.sqrt(1 + t * t)
                A[i], A[j] = cos * (A[i] - t * A[j]), cos * (t * A[i] + A[j])
        if most < 1e-17:
            break
    return np.sort(np.sqrt(np.array([a @ a for a in A] or [0.0], dtype=np.longdouble)))[::-1]


def faults(seed, folder):
    """Return what is wrong with the answer to one draw, as (kind, facts)."""
    rows, container, model, borders = draw(seed)
    given, rows = contained(rows, container, folder, max(1, len(rows) // 3))
    grows = len(borders) > 2 and container in ("numpy", "csr", "fortran")
    with warnings.catch_warnings(record=True) as said, dask.config.set(scheduler="sync"):
        warnings.simplefilter("always")
        for start, stop in pairwise(borders) if grows else [(0, len(rows))]:
            model = model.partial_fit(given[start:stop]) if grows else model.fit(given)
    exactly = rows.astype(np.longdouble)
    n, k = len(rows), len(model.components_)
    mean = exactly.sum(axis=0) / n
    centered = exactly - mean
    A = centered if model.center else exactly
    truth = np.zeros(k, dtype=np.longdouble)
    values = rotated(A)[:k]
    truth[: len(values)] = values**2
    found, certificate = model.singular_values_.astype(np.longdouble) ** 2, model.certificate_
    gaps, facts = (
        np.abs(found - truth),
        " ".join(f"{container} {rows.dtype} {rows.shape} {model} {model.solver_} grows={grows}".split()),
    )
    wrong = []
    if (gaps > certificate.absolute).any():
        wrong.append(("below the error", f"{gaps.max() / certificate.absolute:.3g} times: {facts}"))
    energy = float((A * A).sum())
    axes = np.linalg.qr(model.components_.T.astype(np.float64))[0] * (model.components_ != 0).any(axis=1)
    lost = float(truth.sum() - np.square(A @ axes.astype(np.longdouble)).sum())
    if lost > certificate.lost * energy + 1e-12 * energy * (rows.dtype == np.float32):
        wrong.append(("more is lost", f"{lost / energy:.3g} of {certificate.lost:.3g}: {facts}"))
    silent = not any(issubclass(one.category, UserWarning) for one in said)
    # Products of sparse rows are about the origin, and differences from the mean are rounded.
    about_origin = sparse.issparse(given) or container in ("sparse dask", "store", "h5ad")
    formed = np.square(exactly if about_origin else A).sum()
    of_mean = n * (mean @ mean)
    allowed = MARGIN * EPS * (formed + np.sqrt(formed * of_mean) + EPS * of_mean)
    if silent and model.solver_ in EXACT and (gaps > allowed).any():
        wrong.append(("silently off", f"{gaps.max() / allowed:.3g} times: {facts}"))
    if model.solver_ in EXACT:
        along = np.square(centered @ model.components_.T.astype(np.longdouble)).sum(axis=0)
        off = np.abs(along - model.explained_variance_ * max(1, n - model._ddof))
        scatter = np.square(centered).sum()
        if (off > allowed + 1e-6 * scatter * (model.components_.dtype == np.float32)).any():
            wrong.append(("variance", f"{off.max()} of {scatter}: {facts}"))
    with dask.config.set(scheduler="sync"):
        projected = np.asarray(model.transform(given))
    off = np.abs(projected - A @ model.components_.T.astype(np.longdouble)).max(axis=1)
    # A row is off by rounding of its own length, and far from the origin by that of the mean in double precision.
    sizes, eps = np.sqrt(np.square(A).sum(axis=1)), np.finfo(model.components_.dtype).eps
    if model.center:
        sizes += 8 * np.sqrt(model.explained_variance_.sum())
    if (off > 16 * eps * sizes + (64 + n) * EPS * np.sqrt(mean @ mean) * model.center).any():
        wrong.append(("projection", f"{(off / (eps * sizes + EPS * np.sqrt(mean @ mean))).max():.3g}: {facts}"))
    return wrong


@pytest.mark.parametrize(
    "start", [0, 50, *(pytest.param(start, marks=pytest.mark.slow) for start in range(100, 300, 50))]
)
def test_no_certificate_is_below_the_true_error_and_no_exact_answer_is_silently_off(start, tmp_path):
    found = [(seed, *fault) for seed in range(start, start + 50) for fault in faults(seed, str(tmp_path))]
    assert found == []


def main():
    """Draw as many as are asked for, from a seed on."""
    n, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts = Counter()
    for seed in range(first, first + n):
        with TemporaryDirectory(dir="/dev/shm") as folder:
            for kind, facts in faults(seed, folder):
                counts[kind] += 1
                sys.stdout.write(f"seed {seed}: {kind}: {facts}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{n} draws: {dict(counts) or 'nothing wrong'}\n")


if __name__ == "__main__":
    main()
