"""Plans of every estimator on everything that holds rows, and the fits that follow them."""

import gzip
import tracemalloc

import anndata
import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

import dspectral
from dspectral import SketchedPCA, TextFiles, Texts, TfidfWeighting, Topics, TruncatedSVD, plan
from dspectral.engine.around import callbacks as events
from dspectral.engine.around.context import ProcessMemory, override_context
from dspectral.engine.around.memory import LIBRARY_BYTES
from tests.contracts import CASES
from tests.engine.recording import Recorder, record_events

CONVERGING = {"MomentMultiLabelClassifier", "TreePCA", "EMHMM", "RefinementHMM"}
"""Estimators that may end before the passes that they may make."""
TOLD_BY_THE_FIRST_PASS = {"LocalLSI", "SentenceRepresentation", "Topics", "WordEmbedding"}


def case_of(name):
    return CASES[name].make(), CASES[name].data()


@pytest.mark.parametrize("name", CASES)
def test_a_plan_says_the_passes_tasks_and_bytes_that_its_fit_then_takes(name):
    model, given = case_of(name)
    actual = plan(model, *given)
    passes = [one for one in record_events(lambda: model.fit(*given), events.PassStarted) if one.number]
    assert (actual.n_passes is None) == (name in TOLD_BY_THE_FIRST_PASS)
    if actual.n_passes is not None:
        assert actual.n_passes == len(passes) or (name in CONVERGING and actual.n_passes > len(passes))
    if passes:
        first = passes[0]
        assert (actual.n_tasks, actual.bytes_read) == (first.n_blocks + first.n_merges, first.n_bytes)
    assert actual.verdict == "fits"


def fit_is_refused(model, given, memory):
    heard, said = [], ""
    with override_context(memory=memory), Recorder(heard.append):
        try:
            model.fit(*given)
        except MemoryError as error:
            said = str(error)
    return said, sum(isinstance(event, events.PassStarted) for event in heard)


@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_its_plan_refuses_does_not_start_and_all_others_do(name):
    model, given = case_of(name)
    if CASES[name].kind == "rows" and sparse.issparse(given[0]):
        wide = sparse.hstack([given[0], sparse.csr_array((len(given[0].indptr) - 1, 3000))], format="csr")
        given = (wide, *given[1:])
    most = plan(model, *given, workers=1, memory_limit="9 GB").worker_memory
    for limit in (1000, LIBRARY_BYTES, int(most / 0.95) - 10_000, int(most / 0.95) + 10_000):
        actual = plan(model, *given, workers=1, memory_limit=limit)
        message, n_started = fit_is_refused(model, given, ProcessMemory(1, 1, limit, LIBRARY_BYTES))
        if actual.refusal or name not in TOLD_BY_THE_FIRST_PASS:  # of which later passes may be larger
            assert message == actual.refusal
        assert (actual.verdict == "fits") == (not actual.refusal)
        assert not (actual.refusal and n_started)  # no block is read


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        TruncatedSVD(20, solver="frequent_directions"),
        TruncatedSVD(20, solver="krylov", n_passes=3),
        SketchedPCA(20, solver="frequent_directions"),
        SketchedPCA(20, solver="gram"),
    ],
)
def test_a_fit_takes_no_more_memory_than_its_plan_says_and_not_much_less(model):
    rows = da.random.default_rng(0).standard_normal((3600, 1500), chunks=(1800, -1))  # blocks of 22 MB
    stated = plan(model, rows, workers=1, memory_limit="9 GB").worker_memory
    with dask.config.set(scheduler="sync"):
        tracemalloc.start()
        model.fit(rows)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert stated - LIBRARY_BYTES <= 2 * taken
    assert taken <= stated


@pytest.mark.parametrize("seed", range(8))
def test_what_a_plan_proposes_fits_and_nothing_raises(seed):
    rng = np.random.default_rng(seed)
    n, d = 10 ** rng.integers(2, 6, size=2)
    k = int(min(n, d, rng.integers(1, 100)))
    solver = rng.choice(["auto", "gram", "krylov", "frequent_directions", "nystrom"])
    rows = da.ones((n, d), chunks=(max(1, n // 7), -1))
    model = TruncatedSVD(k, solver=str(solver), n_passes=int(rng.integers(1, 4)))
    limit = int(10 ** rng.uniform(3, 9))
    actual = plan(model, rows, workers=2, memory_limit=limit)
    assert actual.refusal or actual.worker_memory < limit
    for method in actual.remedies:
        name, _, value = method.removeprefix("with ").partition("=")
        larger = value.strip("'") if name == "memory_limit" else limit
        if name != "memory_limit":
            model.set_params(**{name: int(value)})
        assert not plan(model, rows, workers=2, memory_limit=larger).refusal, method


@pytest.mark.parametrize("model", [TruncatedSVD(2), TfidfWeighting(), Topics(2)])
def test_what_no_machine_has_room_for_is_a_refusal_and_no_error(model):
    rows = da.map_blocks(lambda: sparse.csr_array((1, 10**14)), chunks=((1,), (10**14,)), meta=sparse.csr_array((0, 0)))
    actual = plan(model, rows, workers=1)
    assert actual.verdict.startswith(("does not fit", "fits with memory_limit="))
    with pytest.raises(MemoryError, match=f"{type(model).__name__}.*memory"):
        actual.check()


def cells(kind, folder):
    X = sparse.random_array((300, 40), density=0.1, rng=np.random.default_rng(0), format="csr")
    lazy = da.from_array(X.toarray(), chunks=(100, -1))
    adata = anndata.AnnData({"dense": X.toarray(), "lazy": lazy}.get(kind, sparse.csr_matrix(X)))
    if kind in ("dense", "lazy", "memory"):
        return adata
    path = str(folder / ("cells.zarr" if kind == "zarr" else "cells.h5ad"))
    adata = anndata.AnnData(X.toarray()) if kind == "backed-dense" else adata
    (adata.write_zarr if kind == "zarr" else adata.write_h5ad)(path)
    return path if kind in ("zarr", "h5ad") else anndata.read_h5ad(path, backed="r")


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
@pytest.mark.parametrize("kind", ["memory", "dense", "lazy", "zarr", "h5ad", "backed", "backed-dense"])
def test_cells_are_planned_wherever_they_lie(kind, tmp_path):
    actual = plan(SketchedPCA(3), cells(kind, tmp_path))
    assert (actual.n_passes, actual.verdict) == (1, "fits")
    is_dense = kind in ("dense", "lazy", "backed-dense")
    assert actual.bytes_read == 96_000 if is_dense else actual.bytes_read >= 9600


@pytest.mark.parametrize("kind", ["path", "pattern", "files", "texts", "compressed"])
def test_uncounted_text_is_planned_like_its_future_store(kind, tmp_path):
    lines = [f"the cat number{i % 1000} sat on mat{i % 77}" for i in range(6000)]
    path, text = tmp_path / "lines.txt", "\n".join(lines)
    path.write_text(text)
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(text.encode()))
    svd = TruncatedSVD(5, solver="krylov", n_passes=3)
    at = TextFiles(str(path), block_bytes=50_000)
    store = dspectral.build_store(str(path), str(tmp_path / "store.zarr"), block_bytes=at.read_options.block_bytes)
    given = {"path": path, "pattern": str(tmp_path / "*.txt"), "files": at, "texts": Texts(lines)}
    actual = plan(svd, given.get(kind, str(tmp_path / "lines.txt.gz")))
    of_store = plan(svd, str(tmp_path / "store.zarr"))
    assert actual.before.startswith("build_store")
    assert of_store.before == ""
    assert actual.n_passes == of_store.n_passes == 3
    assert actual.n_blocks == (of_store.n_blocks if kind == "files" else 1)
    assert actual.bytes_read == pytest.approx(store.n_bytes, rel=0.1)


def test_a_corpus_is_planned_by_its_path_and_what_is_nowhere_is_said(tmp_path):
    dspectral.build_corpus(Texts(["the cat sat", "the dog sat"]), str(tmp_path / "corpus.zarr"))
    actual = plan(dspectral.SpectralBrownClustering(2, n_dimensions=2), tmp_path / "corpus.zarr")
    assert (actual.n_passes, actual.verdict) == (1, "fits")
    for data, message in (("no.zarr", "no.zarr"), ("no.txt", "no.txt"), (Texts(iter(["a"])), "read only once")):
        with pytest.raises((OSError, ValueError), match=message):
            plan(TruncatedSVD(2), data)
