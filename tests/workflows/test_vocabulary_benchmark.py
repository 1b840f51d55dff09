import json

import pytest

from workflows.benchmarks import vocabulary

pytest.importorskip("pyarrow")


def test_every_step_is_done_by_both_with_equal_results(tmp_path):
    (tmp_path / "lines.txt").write_text(
        "the cat sat on the mat\nÜber den Fluss\n\na dog & a cat\ncat cat cat\n"
    )
    options = ["--text", str(tmp_path / "lines.txt"), "--out", str(tmp_path / "out"), "--repeats", "1"]
    vocabulary.main(options)
    rows = json.loads((tmp_path / "out" / "report.json").read_text())["rows"]
    steps = {row["metric"].rsplit(" ", 1)[0] for row in rows}
    assert steps == {"count words", "count n-grams", "merge", "look up"}
    assert len(rows) == 12
    assert all(row["value"] >= 0 for row in rows)
