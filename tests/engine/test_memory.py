"""What a pass takes is what it is held to: what does not fit is refused before a block is read."""

import dask
import numpy as np
import pytest
from dask.sizeof import sizeof
from distributed import Client
from scipy import sparse

from dspectral import SketchedPCA
from dspectral.decomposition import FrequentDirections
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.nystrom import NystromSketch
from dspectral.engine.around import memory
from dspectral.engine.around.memory import (
    get_local_memory_limit,
    get_process_memory,
    get_resident_bytes,
)
from dspectral.engine.summary import BlockSize, get_nbytes
from tests.engine.blocks import normal_rows


@pytest.mark.parametrize("solver", ["frequent_directions", "nystrom"])
def test_memory_check_refuses_before_reading_and_names_what_fits(solver):
    read = []

    def one_block(block):
        read.append(len(block))
        return block

    X = normal_rows(4, 20_000).map_blocks(one_block, meta=np.empty((0, 0)))
    model = SketchedPCA(60, solver=solver)
    here = {"scheduler": "sync"}
    with dask.config.set({"dspectral.worker-memory": "100 MB", **here}):
        with pytest.raises(MemoryError, match=r"SketchedPCA.*100 MB") as refused:
            model.fit(X)
        assert read == []
    there = str(refused.value).partition("worker-memory=")[2].partition(",")[0]
    with dask.config.set({"dspectral.worker-memory": there, **here}):
        model.fit(X)
    assert len(read) >= 4


def test_admission_can_be_switched_off():
    with dask.config.set({"dspectral.worker-memory": "100 MB", "dspectral.admission": False, "scheduler": "sync"}):
        assert SketchedPCA(2, solver="gram").fit(normal_rows(2, 2000)).n_passes_ == 1


@pytest.mark.parametrize("limit", ["300MB", 0])
def test_workers_with_low_limits_are_refused_with_a_sufficient_one(limit):
    X = normal_rows(2, 20_000)
    model = SketchedPCA(200, solver="frequent_directions")
    how = {"threads_per_worker": 1, "processes": False, "memory_limit": limit, "dashboard_address": ":0"}
    with Client(n_workers=1, **how) as client:
        if limit:
            with pytest.raises(MemoryError, match=r"memory_limit='\d+MB'"):
                model.fit(X)
        else:
            assert get_process_memory(client)[:3] == (1, 1, 0)
            SketchedPCA(2, solver="frequent_directions").fit(normal_rows(2))


@pytest.mark.parametrize("summary", ["sketch", "gram", "product", "nystrom"])
def test_what_a_summary_says_that_it_needs_is_what_it_holds(summary):
    rows = np.random.default_rng(0).standard_normal((300, 500))
    factor = np.ones((500, 20))
    of, bound = {
        "sketch": (FrequentDirections.from_block, {"size": 50}),
        "gram": (Moments.from_block, {}),
        "product": (GramProduct.from_block, {"factor": factor}),
        "nystrom": (
            NystromSketch.from_block,
            {"basis": np.ones((500, 30), dtype=np.float32), "probes": np.ones((500, 64))},
        ),
    }[summary]
    need = of.__self__.estimate_block_memory(BlockSize(300, 500, 8, False), **bound)
    held = get_nbytes(of(rows, **bound))
    assert held == need.summary <= need.work


def test_this_process_may_have_what_its_control_group_leaves(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    limit.write_text("3000000")
    (tmp_path / "memory.current").write_text("1000000")
    monkeypatch.setattr(memory, "CGROUPS", (limit, tmp_path / "missing"))
    assert get_local_memory_limit() == pytest.approx(get_resident_bytes() + 2_000_000, abs=1_000_000)
    limit.write_text("max")
    assert get_local_memory_limit() > get_resident_bytes()


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
def test_dask_counts_the_bytes_of_sparse_blocks(make):
    block = make(np.eye(500))
    assert sizeof(block) >= block.data.nbytes + block.indices.nbytes + block.indptr.nbytes
