import gzip
import json

import pytest
from scipy import sparse

from workflows.benchmarks import hashing

LINES = ["the cat sat on the mat", "Über den Fluss", "", "a dog & a cat", "cat cat cat"]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(hashing, "LEAST_SECONDS", 0.0)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "lines.txt.gz"
    path.write_bytes(gzip.compress("\r\n".join(LINES).encode()))
    return str(path)


def run(tmp_path, *options):
    hashing.main(["--out", str(tmp_path / "out"), "--repeats", "2", *options])
    return json.loads((tmp_path / "out" / "report.json").read_text())["rows"]


def test_both_methods_are_timed_on_one_thread_and_two(tmp_path, text):
    rows = run(tmp_path, "--text", text, "--documents", "4")
    assert [(row["method"], row["threads"]) for row in rows if row["metric"] == "documents_per_second"] == [
        ("scikit-learn", 1),
        ("dspectral", 1),
        ("scikit-learn", 2),
        ("dspectral", 2),
    ]
    assert {row["documents"] for row in rows} == {4}
    assert {row["data"] for row in rows} == {text}
    value = {(row["method"], row["metric"], row["threads"]): row["value"] for row in rows}
    speedup = value["dspectral", "speedup_over_scikit_learn_one_thread", 2]
    rates = [
        value[method, "documents_per_second", t] for method, t in (("dspectral", 2), ("scikit-learn", 1))
    ]
    assert speedup == pytest.approx(rates[0] / rates[1])
    assert value["scikit-learn", "speedup_over_scikit_learn_one_thread", 1] == 1


def test_matrices_that_differ_are_a_fault(tmp_path, text, monkeypatch):
    wrong = sparse.csr_array((4, 1 << 18))
    monkeypatch.setattr(hashing, "hash_documents", lambda _documents, _settings: wrong)
    with pytest.raises(RuntimeError, match=r"differ in \d+ entries, first in document \[0\]"):
        run(tmp_path, "--text", text)
