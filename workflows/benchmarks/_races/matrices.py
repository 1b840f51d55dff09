"""Races over rows: truncated SVD and many labels.

Of SVD, ours reads the store on disk, pass by pass; the others hold the same matrix in memory, in single precision,
and gensim is handed it in chunks. Text hashed to columns has a flat spectrum. Labels are of documents drawn from known
states.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh, svds
from sklearn.feature_extraction.text import TfidfTransformer

import dspectral
from dspectral.methods.multilabel import word_rows

from ..._parts.multilabel_baselines import NapkinTrees, OmikujiTrees
from ..._parts.scores import document_auc, precision_at
from .._defaults.sets import read_multilabel
from .racing import Contender, Found, Race, Settings
from .words import documents

BASELINES = f"{__package__.rpartition('.')[0].rpartition('.')[0]}._parts.multilabel_baselines"
"""Peers of many labels."""
CHUNK = 20_000
"""Rows that gensim is handed at a time."""
DENSE_BYTES = 1 << 26
"""Of a block that Dask multiplies: it has no sparse products, so blocks are made dense, one at a time."""


def make_topics(folder: Path, s: Settings) -> str:
    """Write counts of planted topics, columns in the order that they are drawn in."""
    counts = dspectral.datasets.low_rank_counts(
        s["rows"],
        s["columns"],
        s["topics"],
        row_length=s["row_length"],
        block_rows=min(16_384, -(-s["rows"] // 4)),
        seed=s["seed"],
    )
    store = dspectral.write_counts(counts, str(folder / "counts.zarr"))
    return _written(folder, store.counts, s["k"])


def make_text(folder: Path, s: Settings) -> str:
    """Hash words and their sequences to columns; the matrix is the tf-idf weights."""
    texts, hashing = dspectral.Texts(documents(s)), dspectral.NgramHashing(1 << s["bits"], (1, 3))
    block_bytes = {} if s["block_bytes"] is None else {"block_bytes": s["block_bytes"]}
    store = dspectral.build_store(texts, str(folder / "counts.zarr"), hashing=hashing, **block_bytes)
    return _written(folder, store.tfidf(), s["k"])


def _written(folder: Path, rows: Any, k: int) -> str:
    """Write the matrix for those who hold it, and the energy that no k components can exceed."""
    n_blocks = rows.numblocks[0]
    matrix = sparse.csr_matrix(rows.compute())
    sparse.save_npz(folder / "counts.npz", matrix, compressed=False)
    values = svds(matrix.astype(np.float64), k=k, return_singular_vectors=False, tol=1e-7)
    np.savez(folder / "truth.npz", best=np.sum(values**2), all=np.sum(matrix.data.astype(np.float64) ** 2))
    shape = f"{matrix.shape[0]:,} x {matrix.shape[1]:,}"
    return f"{shape}, {matrix.nnz:,} entries, {n_blocks} block(s), k = {k}"


def energy_lost(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return the share of the best energy that is lost, and how far the residual is above the optimal one."""
    axes, _ = np.linalg.qr(found["components"].T.astype(np.float64))
    matrix = sparse.load_npz(folder / "counts.npz")
    starts = range(0, matrix.shape[0], CHUNK)
    held = sum(float(np.sum((matrix[start : start + CHUNK] @ axes) ** 2)) for start in starts)
    with np.load(folder / "truth.npz") as truth:
        best, energy = float(truth["best"]), float(truth["all"])
    return {"energy_lost": 1.0 - held / best, "excess": (best - held) / (energy - best)}


def our_svd(library: ModuleType, folder: Path, s: Settings, *, tfidf: bool, n_passes: int) -> Callable[[], Found]:
    """Block Krylov passes over the store, or one of Frequent Directions."""
    store = library.open_store(str(folder / "counts.zarr"))
    solver = "krylov" if n_passes > 1 else "frequent_directions"
    sketch_size = None if n_passes > 1 else 2 * s["k"]
    model = library.TruncatedSVD(s["k"], solver=solver, n_passes=n_passes, sketch_size=sketch_size)
    return lambda: {"components": model.fit(store.tfidf() if tfidf else store).components_}


def randomized(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Run scikit-learn's default, five power iterations."""
    rows, model = sparse.load_npz(folder / "counts.npz"), library.TruncatedSVD(s["k"], random_state=0)
    return lambda: {"components": model.fit(rows).components_}


def scipy_svds(library: ModuleType, folder: Path, s: Settings, *, solver: str) -> Callable[[], Found]:
    """Run SciPy's Lanczos methods to the precision of their defaults."""
    rows = sparse.load_npz(folder / "counts.npz")
    return lambda: {"components": library.svds(rows, k=s["k"], solver=solver, rng=0)[2]}


def gensim_lsi(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Merge chunks in one pass."""
    columns = sparse.load_npz(folder / "counts.npz").T.tocsc()
    names, chunk = library.utils.FakeDict(columns.shape[0]), min(CHUNK, columns.shape[1])

    def run() -> Found:
        model = library.models.LsiModel(num_topics=s["k"], chunksize=chunk, dtype=np.float32, id2word=names)
        for start in range(0, columns.shape[1], chunk):
            model.add_documents(columns[:, start : start + chunk])
        return {"components": model.projection.u[:, : s["k"]].T}

    return run


def compressed(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Run Dask's randomized SVD with two power iterations, on blocks made dense one at a time."""
    rows = sparse.load_npz(folder / "counts.npz")
    step = max(s["k"] + 10, DENSE_BYTES // (4 * rows.shape[1]))
    # The last block takes what would be too few rows for a factor of a tall block.
    cuts = [*range(0, max(1, rows.shape[0] - step), step), rows.shape[0]]
    chunks = (tuple(int(n) for n in np.diff(cuts)), (rows.shape[1],))

    def dense(block_info: Any) -> Any:
        (start, stop), _ = block_info[None]["array-location"]
        return rows[start:stop].toarray()

    array = library.map_blocks(dense, chunks=chunks, dtype=rows.dtype, meta=np.empty((0, 0), rows.dtype))

    def run() -> Found:
        _, _, components = library.linalg.svd_compressed(array, s["k"], n_power_iter=2, seed=0)
        return {"components": components.compute()}

    return run


def _svd_contenders(tfidf: bool) -> dict[str, Contender]:
    passes = {
        f"dspectral, {n} pass{'es' * (n > 1)}": Contender("dspectral", partial(our_svd, tfidf=tfidf, n_passes=n))
        for n in (4, 6, 7, 1)
    }
    peers = {
        f"SciPy {solver.upper()}": Contender("scipy.sparse.linalg", partial(scipy_svds, solver=solver))
        for solver in ("arpack", "propack")
    }
    return passes | {
        "scikit-learn randomized": Contender("sklearn.decomposition", randomized),
        **peers,
        "gensim LsiModel": Contender("gensim", gensim_lsi),
        "Dask svd_compressed": Contender("dask.array", compressed),
    }


TOPICS = Race(
    "Find the leading right singular vectors of counts with planted topics.",
    {
        "toy": {"rows": 400, "columns": 300, "topics": 5, "row_length": 20, "k": 5},
        "small": {"rows": 10_000, "columns": 5_000, "topics": 30, "row_length": 60, "k": 30},
        "middle": {"rows": 40_000, "columns": 20_000, "topics": 50, "row_length": 100, "k": 50},
        "full": {"rows": 1_000_000, "columns": 100_000, "topics": 100, "row_length": 120, "k": 100},
    },
    make_topics,
    _svd_contenders(tfidf=False),
    energy_lost,
)


TEXT = Race(
    "Find the leading right singular vectors of tf-idf weights of real text, hashed to columns: a flat spectrum.",
    {
        # Little text is cut into several blocks all the same; at the full size blocks are those that a user gets.
        "toy": {"documents": 300, "bits": 10, "k": 5, "block_bytes": 1 << 21},
        "small": {"documents": 5_000, "bits": 16, "k": 20, "block_bytes": 1 << 21},
        "middle": {"documents": None, "bits": 18, "k": 50, "block_bytes": 1 << 21},
        "full": {"documents": None, "bits": 18, "k": 100, "block_bytes": None},
    },
    make_text,
    _svd_contenders(tfidf=True),
    energy_lost,
)


def make_cells(folder: Path, s: Settings) -> str:
    """Write cells with planted programs of genes, as an AnnData file: the log of counts, a share of them not zero."""
    from anndata import AnnData  # noqa: PLC0415

    rng, step = np.random.default_rng(s["seed"]), 5_000
    genes = rng.gamma(0.3, 1.0, (20, s["columns"])) * rng.gamma(0.5, 1.0, s["columns"])
    parts, scales = [], np.geomspace(1e-4, 1e4, 400)
    for start in range(0, min(s["rows"], s["drawn"]), step):
        programs = rng.gamma(0.3, 1.0, (min(step, s["rows"] - start), 20))
        rates = (programs / programs.sum(axis=1, keepdims=True)) @ genes
        if start == 0:  # as deep a count as fills the share that is asked for
            scale = scales[np.searchsorted([-np.expm1(-by * rates[:100]).mean() for by in scales], s["filled"])]
        parts.append(sparse.csr_matrix(np.log1p(rng.poisson(scale * rates), dtype=np.float32)))
    turns, drawn = max(1, s["rows"] // s["drawn"]), sparse.vstack(parts, format="csr")
    matrix = sparse.vstack([drawn] * turns, format="csr")
    AnnData(matrix).write_h5ad(folder / "cells.h5ad")
    drawn, n = drawn.astype(np.float64), matrix.shape[0]
    mean = np.asarray(drawn.mean(axis=0)).ravel()
    moment = LinearOperator(
        2 * matrix.shape[1:],
        matvec=lambda v: turns * (drawn.T @ (drawn @ v)) - n * mean * (mean @ v),
        dtype=np.float64,
    )
    values = eigsh(moment, s["k"], v0=mean, return_eigenvectors=False)  # to rounding
    np.savez(folder / "truth.npz", variance=np.sort(values)[::-1] / (n - 1))
    return f"{n:,} x {s['columns']:,}, {matrix.nnz:,} entries, k = {s['k']}"


def values_off(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return the largest relative error of a singular value."""
    with np.load(folder / "truth.npz") as truth:
        return {"values_off": float(np.abs(np.sqrt(found["variance"] / truth["variance"]) - 1.0).max())}


def pca_of_cells(library: ModuleType, folder: Path, s: Settings, *, how: str = "") -> Callable[[], Found]:
    """Call the ``pp.pca`` of a library on cells in memory, in blocks of Dask, or in their file."""
    import anndata  # noqa: PLC0415

    place: Any = str(folder / "cells.h5ad")
    options = {"svd_solver": "covariance_eigh"} if how == "Dask" else {}
    adata = anndata.experimental.read_lazy(place) if how == "Dask" else place
    adata = anndata.AnnData(adata.X) if how == "Dask" else anndata.read_h5ad(place) if not how else place

    def run() -> Found:
        library.pp.pca(adata, n_comps=s["k"], **options)
        found = anndata.read_h5ad(place, backed="r") if how == "file" else adata
        n = found.shape[0]  # by which scanpy divides where it computes with Dask
        return {"variance": np.asarray(found.uns["pca"]["variance"]) * (n / (n - 1) if how == "Dask" else 1)}

    return run


def sklearn_pca(library: ModuleType, folder: Path, s: Settings, *, solver: str) -> Callable[[], Found]:
    """Fit and transform the matrix in memory."""
    import anndata  # noqa: PLC0415

    rows, model = anndata.read_h5ad(folder / "cells.h5ad").X, library.PCA(s["k"], svd_solver=solver)
    return lambda: {"variance": [model.fit_transform(rows), model.explained_variance_][1]}


def pca_by_crest(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Decompose the Gram matrix of cells in memory."""
    import anndata  # noqa: PLC0415

    cells = library.BioFrame.from_anndata(anndata.read_h5ad(folder / "cells.h5ad"))
    return lambda: {"variance": library.tl.pca(cells, n_comps=s["k"]).uns["pca"]["variance"]}


CELLS = Race(
    "Find the principal components of cells, centered, and the coordinates of all.",
    {
        "toy": {"rows": 300, "columns": 60, "drawn": 300, "filled": 0.05, "k": 5},
        "small": {"rows": 20_000, "columns": 2_000, "drawn": 20_000, "filled": 0.05, "k": 50},
        "middle": {"rows": 100_000, "columns": 2_000, "drawn": 100_000, "filled": 0.05, "k": 50},
        "full": {"rows": 1_000_000, "columns": 2_000, "drawn": 50_000, "filled": 0.05, "k": 50},
    },
    make_cells,
    {
        "dspectral": Contender("dspectral", pca_of_cells),
        "dspectral, file": Contender("dspectral", partial(pca_of_cells, how="file")),
        "scanpy": Contender("scanpy", pca_of_cells),
        "CREST": Contender("crest", pca_by_crest),
        "scanpy, Dask covariance_eigh": Contender("scanpy", partial(pca_of_cells, how="Dask")),
        **{
            f"scikit-learn {solver}": Contender("sklearn.decomposition", partial(sklearn_pca, solver=solver))
            for solver in ("covariance_eigh", "arpack")
        },
    },
    values_off,
)
CELLS_FILLED, CELLS_WIDE = (
    CELLS._replace(sizes={size: {**how, **({} if size == "toy" else change)} for size, how in CELLS.sizes.items()})
    for change in ({"filled": 0.1}, {"columns": 30_000, "drawn": 10_000})
)
"""The same twice as full, and with the variables of a whole genome."""

MOST_SCORED = 500
"""Further documents that are drawn, whose labels are ranked."""


def make_labeled(folder: Path, s: Settings) -> str:
    """Write a store of documents with their labels, and further documents: of a data set, or drawn."""
    if s.get("of"):
        train, test = read_multilabel(Path(s["data"]), s["of"], str(folder), s["seed"]).final
        dspectral.write_counts(train.X, str(folder / "learned.zarr"), labels=train.y)
        sparse.save_npz(folder / "others.npz", test.X)
        sparse.save_npz(folder / "truth.npz", test.y[:, : train.y.shape[1]])  # labels that can be learned
        (n, words), n_labels = train.X.shape, train.y.shape[1]
        return f"{n:,} documents and {test.n_rows:,} others, {words:,} words, {n_labels:,} labels"
    places = {"learned.zarr": s["documents"], "others.zarr": min(MOST_SCORED, s["documents"])}
    for seed, (place, n) in enumerate(places.items(), start=s["seed"]):
        words, labels = dspectral.datasets.labeled_counts(
            n, s["words"], s["labels"], s["states"], block_rows=max(1, min(20_000, n // 4)), seed=seed
        )
        store = dspectral.write_counts(words, str(folder / place), labels=labels)
        if place == "others.zarr":
            sparse.save_npz(folder / "others.npz", sparse.csr_array(store.counts.compute()))
            sparse.save_npz(folder / "truth.npz", sparse.csr_array(store.labels.compute()))
    return f"{s['documents']:,} documents, {s['words']:,} words, {s['labels']:,} labels, {s['states']} states"


def label_scores(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return the area under the curve, and the precision of the first label."""
    truth = sparse.load_npz(folder / "truth.npz")
    return {
        "auc": float(np.nanmean(document_auc(found["scores"], truth))),
        "precision_at_1": float(np.nanmean(precision_at(found["scores"], truth, 1))),
    }


def _learned(model: Any, folder: Path) -> Callable[[], Any]:
    store = dspectral.open_store(str(folder / "learned.zarr"))
    others = sparse.load_npz(folder / "others.npz")
    return lambda: partial(model.fit(store).decision_function, others)


def label_peer(
    library: ModuleType, folder: Path, _s: Settings, *, make: Callable[[ModuleType], Any]
) -> Callable[[], Any]:
    """Learn from rows of tf-idf in memory, of unit length."""
    store = dspectral.open_store(str(folder / "learned.zarr"))
    rows = (store.counts.compute(), sparse.load_npz(folder / "others.npz"))
    X, others = (sparse.csr_matrix(word_rows(each, keep_counts=False)) for each in rows)
    weigh = TfidfTransformer().fit(X)
    X, others, Y = weigh.transform(X), weigh.transform(others), sparse.csr_matrix(store.labels.compute())
    return lambda: partial(make(library).learn(X, Y).scores, others)


def label_contenders() -> dict[str, Contender]:
    """Return ours and peers."""

    def contender(module: str, prepare: Any) -> Contender:
        return Contender(module, prepare, lambda score: {"scores": score()})  # scoring is not timed

    peers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "napkinXC": ("napkinxc.models", NapkinTrees),
        "Omikuji": ("omikuji", OmikujiTrees),
        "ridge": (BASELINES, lambda library: library.Ridge()),
        "linear SVM": (BASELINES, lambda library: library.OneVsRest(1.0, machine=True)),
        "logistic": (BASELINES, lambda library: library.OneVsRest()),
    }
    return {
        "dspectral": contender(
            "dspectral", lambda library, folder, _s: _learned(library.MomentMultiLabelClassifier(), folder)
        ),
        "low rank": contender(
            BASELINES,
            lambda library, folder, s: _learned(library.LowRank(s["states"], iterations=s["turns"]), folder),
        ),
        **{name: contender(module, partial(label_peer, make=make)) for name, (module, make) in peers.items()},
    }


LABELS = Race(
    "Learn to rank labels, by defaults alone; scoring further documents is not timed.",
    {
        "toy": {"documents": 400, "words": 200, "labels": 12, "states": 4, "turns": 1},
        "small": {"documents": 4_000, "words": 3_000, "labels": 100, "states": 20, "turns": 10},
        "middle": {"documents": 8_000, "words": 5_000, "labels": 200, "states": 30, "turns": 10},
        "full": {"documents": 300_000, "words": 200_000, "labels": 13_330, "states": 50, "turns": 10},
    },
    make_labeled,
    label_contenders(),
    label_scores,
)
