"""Hostile matrices through every door and solver, compared with LAPACK in double precision.

``python -m tests.decomposition.hostile_draws --draws 3000 --seed 0`` prints a table of faults; the exit status is 1 if
there are any. ``--only NUMBER`` repeats one draw.
"""

import argparse
import re
import sys
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import anndata
import dask
import dask.array as da
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dspectral import PCA, SketchedPCA, TruncatedSVD, engine, open_store, pp, write_counts
from tests.decomposition.test_estimators import csr_blocks

EPS = float(np.finfo(np.float64).eps)
FAULTS = ("wrong value", "certificate", "missing", "interval", "other")


def one_hot(rng):
    n_categories = int(rng.choice([20, 150, 300, 500, 850]))
    rows = sparse.vstack([sparse.eye_array(n_categories)] * int(rng.integers(2, 5)), format="csr")
    return rows[rng.permutation(rows.shape[0])] if rng.random() < 0.5 else rows


def permuted_identities(rng):
    n = int(rng.choice([100, 300, 500, 700], p=[0.2, 0.3, 0.3, 0.2]))
    return sparse.eye_array(2600, format="csr")[rng.permutation(2600)[:n]]


def equal_blocks(rng):
    n_blocks, *shape = [(8, 20, 15), (30, 30, 28), (16, 60, 55)][rng.choice(3, p=[0.3, 0.5, 0.2])]
    block = sparse.random_array(shape, density=0.2, rng=rng)
    return sparse.block_diag([block] * n_blocks, format="csr")


def repeated_documents(rng):
    n_groups, n_words = [(30, 200), (120, 900), (280, 900)][rng.choice(3, p=[0.2, 0.2, 0.6])]
    words = rng.permutation(n_words)[: 3 * n_groups] if rng.random() < 0.5 else rng.integers(n_words, size=3 * n_groups)
    documents = sparse.csr_array((np.ones(3 * n_groups), words, np.arange(n_groups + 1) * 3), shape=(n_groups, n_words))
    documents.sum_duplicates()
    repeats = int(rng.integers(2, 5)) if rng.random() < 0.7 else rng.integers(1, 5, n_groups)
    return documents[np.repeat(np.arange(n_groups), repeats)]


def rotated(rng, shape, values):
    """Return a dense matrix with given singular values and random singular vectors."""
    U, V = (np.linalg.qr(rng.standard_normal((n, len(values))))[0] for n in shape)
    return (U * values) @ V.T


def clustered(rng):
    shape = int(rng.integers(30, 120)), int(rng.integers(20, 150))
    levels = np.sort(10.0 ** rng.uniform(-3, 1, int(rng.integers(1, 5))))[::-1]
    values = np.repeat(levels, int(rng.integers(2, 9)))[: min(shape)]
    return rotated(rng, shape, values * (1 + 10.0 ** -rng.integers(2, 14) * rng.random(len(values))))


def geometric(rng):
    shape = [(20, 130), (20, 130), (90, 30)][rng.integers(3)]
    values = 10.0 * rng.choice([0.02, 0.02, 0.1, 0.4]) ** np.arange(min(shape))
    return rotated(rng, shape, values[values > 1e-13])


def large_means(rng):
    shape = int(rng.integers(20, 90)), int(rng.choice([5, 12, 40]))
    return 10.0 ** rng.integers(1, 9) * rng.choice([-1, 1], shape[1]) + 0.1 * rng.standard_normal(shape)


def weak_factors(rng):
    shape = int(rng.integers(150, 350)), int(rng.choice([300, 1200, 2300]))
    factors = rng.gamma(0.3, size=(shape[0], 12)) @ rng.gamma(0.3, size=(12, shape[1]))
    return sparse.csr_array(rng.poisson(factors * rng.choice([0.1, 0.5])).astype(float))


def plain(rng):
    if rng.random() < 0.5:
        return rng.standard_normal((int(rng.integers(1, 200)), int(rng.integers(1, 60))))
    return sparse.random_array((int(rng.integers(60, 300)), int(rng.choice([80, 2100]))), density=0.05, rng=rng).tocsr()


def scaled_columns(rng):
    """Draw few rows far from the origin or not, with columns of other scales, zeros, constants and duplicates."""
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 10))
    rows = rng.standard_normal((n, d)) + 10.0 ** rng.uniform(0, 8) * rng.choice([-1, 0, 0, 1], d)
    rows *= rng.choice([1.0, 10.0 ** rng.uniform(0, 12)], d) * (rng.random((n, d)) < rng.choice([0.1, 0.6, 1.0, 1.0]))
    special = rng.choice(9)
    if special < 3:
        rows[:, rng.integers(d)] = [0.0, 1e4 / 3, rows[:, rng.integers(d)]][special]
    return rows[:1].repeat(n, axis=0) if special == 3 else rows * 10.0 ** rng.choice([0, 0, rng.uniform(-30, 15)])


KINDS = {
    one_hot: "auto",
    permuted_identities: "auto",
    equal_blocks: "in_memory",
    repeated_documents: "in_memory",
    clustered: "krylov",
    geometric: "krylov",
    large_means: "gram",
    weak_factors: "krylov",
    scaled_columns: "auto",
    plain: "auto",
}
"""Kinds of rows, and the solver of half of their draws, to which they are most hostile."""
DOORS = ("PCA", "TruncatedSVD", "SketchedPCA", "pp.pca", "partial_fit", "merge")
CONTAINERS = ("dense", "csr", "dask", "sparse dask", "sparse dask", "store", "h5ad")
EXACT = ("full", "gram", "in_memory")
GROWING = ("auto", "auto", "gram", "full", "in_memory", "frequent_directions", "median_frequent_directions", "nystrom")


class Draw(NamedTuple):
    """Rows (n, d) as an array or path, their values in double precision, the door, and the estimator or arguments."""

    rows: Any
    exact: Any
    door: str
    model: Any
    facts: str


class Answer(NamedTuple):
    """Results of a fit: see the attributes of :class:`dspectral.PCA`; the last two are None if there are none."""

    values: Any
    components: Any
    projections: Any
    variances: Any
    ratio: Any
    absolute: float
    lost: float
    solver: str
    intervals: Any
    residuals: Any


def contained(rows, container, folder, step):
    """Return rows in a container, and their values in double precision as they are read from it."""
    csr = sparse.csr_array(rows)
    if container == "h5ad":
        path = str(Path(folder) / "rows.h5ad")
        anndata.AnnData(rows if isinstance(rows, np.ndarray) else sparse.csr_matrix(csr)).write_h5ad(path)
        if isinstance(rows, np.ndarray):
            return path, rows.astype(np.float64)
        return path, engine.as_dask_rows(open_store(path)).compute().toarray().astype(np.float64)
    if container == "store":
        try:
            store = write_counts(csr, f"memory://hostile{folder}", block_rows=step, signed=True)
        except ValueError:  # out of the range of a store
            return csr, csr.toarray().astype(np.float64)
        return store, engine.as_dask_rows(store).compute().toarray().astype(np.float64)
    dense = csr.toarray()
    makers = {
        "dense": lambda: dense,
        "csr": lambda: csr,
        "dask": lambda: da.from_array(dense, chunks=(step, -1)),
        "sparse dask": lambda: csr_blocks(csr, step),
    }
    return makers[container](), dense.astype(np.float64)


def draw(kind, seed, folder):
    """Draw rows of a kind, and a door for them."""
    rng = np.random.default_rng(seed)
    rows = kind(rng)
    rows = rows.astype(np.float32) if rng.random() < 0.35 and np.abs(rows).max() < 1e15 else rows
    n, k = rows.shape[0], min(int(rng.choice([1, 3, 7, 10, 12])), *rows.shape)
    door, container = DOORS[rng.integers(6)], CONTAINERS[rng.integers(7)]
    door = "PCA" if n < 6 and door in DOORS[4:] else door
    center = bool(rng.random() < 0.6)
    solver = KINDS[kind] if rng.random() < 0.5 else str(rng.choice([*GROWING, "krylov", "krylov"]))
    options: dict[str, Any] = {"random_state": int(rng.integers(3))}
    tol = float(rng.choice([1e-3, 1e-5, 1e-8, 1e-8]))
    if door == "pp.pca":
        model: Any = {"n_comps": k, "zero_center": center, "tol": rng.choice([0.0, tol]), **options}
    else:
        face = {"PCA": PCA, "TruncatedSVD": TruncatedSVD}.get(door, SketchedPCA)
        if door in DOORS[4:]:
            face, container = (PCA, TruncatedSVD, SketchedPCA)[rng.integers(3)], CONTAINERS[rng.integers(5)]
            solver = solver if solver in GROWING[:-1] else str(rng.choice(GROWING[: -1 if door == "merge" else None]))
        if solver == "krylov":
            options |= {"tol": tol} if rng.random() < 0.7 else {"n_passes": int(rng.integers(1, 6))}
        if face is SketchedPCA:
            options["center"] = center
        model = face(k, **{"svd_solver" if face is PCA else "solver": solver}, **options)
    given, exact = contained(rows, container, folder, -(-n // int(rng.integers(1, 5))))
    if container == "h5ad" and door != "pp.pca":
        given = open_store(given) if sparse.issparse(rows) else anndata.read_h5ad(given).X
    described = " ".join(f"{container} {rows.dtype} {rows.shape} {model}".split())
    return Draw(given, exact, door, model, f"{kind.__name__} {door}: {described}")


def decompose(drawn):
    """Return the answer to a draw, whether its components are of centered rows, and the messages of warnings."""
    model, rows = drawn.model, drawn.rows
    with warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore")
        if drawn.door in DOORS[4:]:
            n = rows.shape[0]
            first, second, rows = (rows[start:stop] for start, stop in pairwise((0, n // 3, n // 2, n)))
            model = model.partial_fit(first)
            if drawn.door == "merge":
                other = type(model)(**model.get_params()).partial_fit(second)
                model.summary_ = model.summary_.merge(other.summary_)
            else:
                model.partial_fit(second)
    with warnings.catch_warnings(record=True) as messages, dask.config.set(scheduler="sync"):
        warnings.simplefilter("always")
        if drawn.door == "pp.pca":
            answer, center = decompose_cells(rows, model), model["zero_center"]
        else:
            model = model.partial_fit(rows) if drawn.door in DOORS[4:] else model.fit(rows)
            more = (getattr(model, name, None) for name in ("singular_value_intervals_", "residuals_"))
            parts = model.explained_variance_, model.explained_variance_ratio_, *model.certificate_[::2], model.solver_
            projections = np.asarray(model.transform(drawn.rows))
            answer = Answer(model.singular_values_, model.components_, projections, *parts, *more)
            center = model.center
    return answer, center, messages


def decompose_cells(rows, arguments):
    """Return the answer of :func:`dspectral.pp.pca`, from an AnnData in memory, a store or a file."""
    if isinstance(rows, str):
        pp.pca(rows, **arguments)
        cells = anndata.read_h5ad(rows)
    elif hasattr(rows, "to_anndata"):
        cells = pp.pca(rows, **arguments)
    else:
        cells = pp.pca(anndata.AnnData(rows), **arguments, copy=True)
    facts, more = cells.uns["pca"], cells.uns["dspectral"]["pca"]
    names = ("singular_value_intervals", "residuals")
    certificate = more["certificate"]["absolute"], more["certificate"]["lost"]
    parts = more["singular_values"], cells.varm["PCs"].T, np.asarray(cells.obsm["X_pca"])
    parts = *parts, facts["variance"], facts["variance_ratio"], *certificate, more["solver"]
    return Answer(*parts, *(more.get(name) for name in names))


class Faults(list):
    """Faults as (name, facts)."""

    def add(self, name, wrong, *figures):
        """Add a fault if anything is wrong."""
        if np.any(wrong):
            self.append((name, " ".join(map(str, figures))))


def check(drawn):
    """Return the faults of the answer to a draw."""
    answer, center, messages = decompose(drawn)
    exact, n = drawn.exact, len(drawn.exact)
    single, is_exact = answer.components.dtype == np.float32, answer.solver in EXACT
    mean = exact.astype(np.longdouble).mean(axis=0) if center else np.zeros(1)
    A = (exact - mean).astype(np.float64)
    values, k, energy = answer.values.astype(float), len(answer.values), float(np.vdot(A, A))
    truth = np.linalg.svd(A, compute_uv=False)[:k]
    truth, top = np.pad(truth, (0, k - len(truth))), truth[0]
    nonzero, faults = values > 0, Faults()

    # Rounding of a value: of the mean, of products (of sparse rows before centering), and relative.
    mean_rounding = 100 * EPS * float(np.sqrt(n * (mean @ mean)))
    formed = np.square(exact).sum() if center and np.mean(exact != 0) < 0.26 else top**2
    eps = float(np.finfo(np.float32).eps) if single and answer.solver not in ("full", "gram") else EPS
    floor = (200 * EPS * top) ** 2 if answer.solver == "full" else 64 * eps * max(1.0, np.sqrt(n) / 16) * formed
    relative = 1e-9 if eps == EPS else 1e-5
    allowed = relative * truth + np.sqrt(truth**2 + floor) - truth + mean_rounding + 20 * EPS * top
    off = values - truth
    wrong = nonzero & (np.abs(off) > allowed if is_exact else off > allowed + 8 * np.sqrt(eps) * top)
    faults.add("wrong value", wrong, values[wrong], "for", truth[wrong], "largest", top)

    gaps, bound = np.abs(values**2 - truth**2), answer.absolute + 20 * EPS * top**2
    faults.add("certificate", nonzero & (gaps > bound), "error", gaps.max(), "bound", answer.absolute)
    basis = np.linalg.qr(answer.components[nonzero].T.astype(np.float64))[0]
    lost = float(np.square(truth).sum() - np.square(A @ basis).sum()) / (energy or 1.0)
    rounding = (1e-12 if single else 2e-14) + mean_rounding**2 / (energy or 1.0)
    faults.add("certificate", lost > answer.lost + rounding, "lost", lost, "bound", answer.lost)
    tol = drawn.model["tol"] if isinstance(drawn.model, dict) else drawn.model.tol
    is_reached = tol and not any(issubclass(message.category, ConvergenceWarning) for message in messages)
    faults.add("certificate", is_reached and lost > tol + rounding, "lost", lost, "tol", tol)

    stated = [re.search(r"values above (\S+) of the largest", str(message.message)) for message in messages]
    resolution = max((float(match[1]) for match in stated if match), default=0.0)
    seen = max(floor, (1.6 * resolution * top) ** 2, 0.0 if is_exact else answer.absolute) + mean_rounding**2
    missing = ~nonzero & (truth**2 > seen)
    faults.add("missing", missing, missing.sum(), "of", k, "with", truth[missing][:1], "stated", resolution)
    faults.add("missing", (truth[~nonzero] > EPS * top).any() and not any(stated), "without a word", values)

    faults.add("interval", answer.intervals is None and not isinstance(drawn.model, dict), "there are none")
    if answer.intervals is not None:
        lower, upper = np.asarray(answer.intervals).T
        slack = 20 * EPS * top + mean_rounding
        faults.add("interval", (lower > truth + slack) | (upper < truth - slack), lower, truth, upper)
    if answer.residuals is not None:
        V = answer.components.astype(np.float64)
        lengths = np.linalg.norm(V @ A.T @ A - (values**2)[:, None] * V, axis=1)
        # Rounding of the components as they are returned, and of sums of products.
        slack = 16 * float(np.finfo(answer.components.dtype).eps) * top**2
        slack += 200 * EPS * float(np.square(exact).sum())
        faults.add("interval", lengths > answer.residuals + slack, "residual", lengths, answer.residuals)
    check_components(answer, exact, mean, n - (center or isinstance(drawn.model, SketchedPCA)), faults)
    return [(name, f"{facts} {answer.solver} {drawn.facts}") for name, facts in faults]


def check_components(answer, exact, mean, degrees, faults):
    """Add the faults of the components (k, d), projections (n, k) and variances (k,) of rows (n, d)."""
    single = answer.components.dtype == np.float32
    product = answer.components[answer.values > 0].astype(np.float64)
    off = np.abs(product @ product.T - np.eye(len(product))).max(initial=0.0)
    faults.add("other", off > (2e-5 if single else 1e-10), "orthonormal to", off)
    faults.add("other", answer.ratio.sum() > 1 + 1e-12, "ratios sum to", answer.ratio.sum())
    axes, A = answer.components.astype(np.longdouble).T, exact - mean
    off = np.abs(answer.projections - A @ axes).max(axis=1)
    sizes = np.sqrt(np.square(A).sum(axis=1)) + 8 * np.sqrt(answer.variances.sum())
    # Products of single precision are sums of d terms.
    rounding = (16 + exact.shape[1] / 8) * np.finfo(answer.projections.dtype).eps * sizes
    rounding += (64 + len(A)) * EPS * np.sqrt(mean @ mean)
    faults.add("other", off > rounding, "projections are off by", off.max(), "allowed", rounding.max())
    centered = exact - exact.astype(np.longdouble).mean(axis=0)
    off = np.abs(np.square(centered @ axes).sum(axis=0) - answer.variances * max(1, degrees))
    rounding = answer.absolute + 200 * EPS * np.square(exact).sum() + 1e-6 * np.square(A).sum() * single
    faults.add("other", off > rounding, "variances are off by", off.max(), "allowed", rounding)


def check_draw(kind, seed):
    """Return the door and the faults of one draw; an exception is a fault, except for squares out of range."""
    with TemporaryDirectory() as folder:
        drawn = draw(kind, seed, folder)
        try:
            return drawn.door, check(drawn)
        except Exception as error:  # noqa: BLE001  any error is a fault
            if "squares of X sum to" in str(error):
                return drawn.door, []
            return drawn.door, [("other", f"{error!r:.300} {drawn.facts}")]


def main():
    """Print the table of faults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    counts, n_draws = Counter(), Counter()
    numbers = range(arguments.draws) if arguments.only is None else [arguments.only]
    for number in numbers:
        kind = list(KINDS)[number % len(KINDS)]
        door, faults = check_draw(kind, [arguments.seed, number])
        n_draws[kind.__name__, door] += 1
        counts.update((kind.__name__, door, name) for name in {name for name, _ in faults})
        for name, facts in faults:
            print(f"draw {number}: {name}: {facts}", flush=True)  # noqa: T201
    print("kind | door | draws |", " | ".join(FAULTS))  # noqa: T201
    for (kind, door), n in sorted(n_draws.items()):
        print(kind, door, n, *(counts[kind, door, name] for name in FAULTS), sep=" | ")  # noqa: T201
    totals = [sum(n for key, n in counts.items() if key[2] == name) for name in FAULTS]
    print("all", "", sum(n_draws.values()), *totals, sep=" | ")  # noqa: T201
    sys.exit(int(any(totals)))


if __name__ == "__main__":
    main()
