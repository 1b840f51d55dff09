import json

import pytest

from tests.schedulers import forked_workers
from workflows.benchmarks import hybrid_memory


def test_the_model_is_fitted_to_every_number_of_documents(tmp_path, capsys):
    options = ["--documents", "400", "1200", "--terms", "60", "--classes", "5", "--n-components", "3"]
    with forked_workers():
        hybrid_memory.main([*options, "--workers", "1", "--out", str(tmp_path / "out"), "--debug"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    peaks = {r["documents"]: r["value"] for r in report["rows"] if r["metric"] == "peak_memory_bytes"}
    assert set(peaks) == {400, 1200}
    assert min(peaks.values()) > 0
    assert any("for 3 times the documents" in note for note in report["notes"])
    with pytest.raises(SystemExit):
        hybrid_memory.main([*options, "--out", str(tmp_path / "none")])
    assert "give --workers" in capsys.readouterr().err
