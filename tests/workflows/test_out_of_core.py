"""Peak memory against rows, at a small size."""

import json

import pytest

from tests.schedulers import forked_workers
from workflows.benchmarks import out_of_core


@pytest.mark.slow
def test_each_part_is_sketched_and_decomposed_and_told(tmp_path):
    options = ["--rows", "400", "--columns", "3000", "--row-length", "10", "--block-rows", "400"]
    options += ["--sketch-size", "12", "--factors", "1", "3", "--components", "4", "--passes", "3"]
    with forked_workers():
        out_of_core.main([*options, "--workers", "1", "--out", str(tmp_path / "out"), "--debug"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    found = {(row["data"], row["method"], row["metric"]): row["value"] for row in report["rows"]}
    for method in ("frequent_directions", "krylov"):
        assert 0 < 2 * found["x1", method, "entries"] < found["x3", method, "entries"]
        for data in ("x1", "x3"):
            assert found[data, method, "peak_memory_bytes"] > 0
            assert found[data, method, "spilled_bytes"] == 0
            assert 0 < found[data, method, "relative_certificate"] < 1
    assert found["x3", "krylov", "passes"] == 3
    assert found["x1", "frequent_directions", "allowed_memory_bytes_of_all_workers"] > 0
