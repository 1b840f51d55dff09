import json

import numpy as np
import pytest
import zarr

from dspectral import open_store, write_counts
from dspectral.store.arrays import StoreError
from workflows.benchmarks import checked_reading

PASSES = ["one Krylov product", "one sketch", "reading alone"]


@pytest.fixture
def url(tmp_path):
    rows = np.random.default_rng(0).poisson(1.0, (30, 20)).astype(float)
    write_counts(rows, str(tmp_path / "counts.zarr"), block_rows=10)
    return str(tmp_path / "counts.zarr")


@pytest.mark.parametrize("drawn", [True, False])
def test_each_pass_has_its_cost_with_its_spread(tmp_path, url, drawn):
    which = ["--rows", "60", "--columns", "40"] if drawn else ["--store", url]
    checked_reading.main(["--out", str(tmp_path / "out"), "--repeats", "3", "--n-components", "2", *which])
    rows = json.loads((tmp_path / "out" / "report.json").read_text())["rows"]
    costs = [row for row in rows if row["metric"] == "cost_of_checks"]
    assert [row["method"] for row in costs] == PASSES
    assert all(row["lower_quartile"] <= row["value"] <= row["upper_quartile"] for row in costs)
    assert {row["data"] for row in rows} == {"drawn" if drawn else url}
    assert {row["repeats"] for row in rows} == {3}


def test_without_checks_damage_is_read_and_afterwards_it_is_found_again(url):
    (block,) = open_store(url).blocks[:1]
    array = zarr.open_array(f"{url}/{block.name}/data", mode="a")
    array[0] = 77.0
    with checked_reading.without_checks():
        assert open_store(url).counts.blocks[0].compute().data[0] == 77.0
    with pytest.raises(StoreError, match="is not what was written"):
        open_store(url).counts.blocks[0].compute()
