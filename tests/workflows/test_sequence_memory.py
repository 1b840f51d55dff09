import json

from tests.schedulers import forked_workers
from workflows.benchmarks import sequence_memory


def test_every_model_is_fitted_to_every_number_of_tokens(tmp_path):
    options = ["--tokens", "4000", "12000", "--types", "40", "--states", "3", "--workers", "1"]
    with forked_workers():
        sequence_memory.main([*options, "--out", str(tmp_path / "out"), "--debug"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    peaks = {
        (row["method"], row["tokens"]): row["value"]
        for row in report["rows"]
        if row["metric"] == "peak_memory_bytes"
    }
    assert set(peaks) == {(method, n) for method in ("anchor", "em", "refinement") for n in (4000, 12000)}
    assert min(peaks.values()) > 0
    assert len([note for note in report["notes"] if "for 3 times the tokens" in note]) == 3
