"""Programs that forget rows and combine sites."""

import json

import numpy as np
import pytest

from dspectral import NgramHashing, SketchedPCA, Texts, build_store, load, open_store, write_summary
from tests.workflows.programs import report_of, values_of
from workflows import combine, forget, summarize

TEXTS = [f"word{i % 7} word{i * i % 11} again" for i in range(60)]


@pytest.fixture
def stores(tmp_path):
    settings = {"hashing": NgramHashing(64), "keep_texts": True}
    return [build_store(Texts(TEXTS[i::2]), str(tmp_path / f"site-{i}"), **settings) for i in range(2)]


def test_forget_removes_the_rows_of_a_file_and_writes_a_receipt(stores, tmp_path):
    (tmp_path / "rows").write_text("3\n5\n")
    url = stores[0].location.url
    report = report_of("forget", tmp_path / "out", url, "--rows", tmp_path / "rows")
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert (receipt["n_rows"], receipt["n_remaining_rows"], len(receipt["blocks"])) == (2, 28, 1)
    assert values_of(report, "metric")[("rows",)] == 28
    assert open_store(url).text(range(28)) == [text for i, text in enumerate(TEXTS[::2]) if i not in (3, 5)]


def test_sites_are_summarized_and_combined(stores, tmp_path):
    paths = [tmp_path / f"{letter}.summary" for letter in "ab"]
    for store, path in zip(stores, paths, strict=True):
        report_of("summarize", tmp_path / "out", store.location.url, "-o", path, "--components", 3)
    report = report_of("combine", tmp_path / "out", *paths, "-o", tmp_path / "model", "--components", 2)
    model, rows = load(tmp_path / "model"), np.concatenate([store.counts.compute().toarray() for store in stores])
    assert np.allclose(np.abs(model.components_), np.abs(SketchedPCA(2).fit(rows).components_), atol=1e-5)
    assert values_of(report, "metric")[("certificate_relative",)] == model.certificate_.relative


def test_plan_of_forget_summarize_and_combine_writes_nothing(stores, tmp_path, capsys):
    (tmp_path / "rows").write_text("3\n")
    url, summary = stores[0].location.url, tmp_path / "a.summary"
    out = ["--out", str(tmp_path / "out"), "--plan"]
    forget.main([url, "--rows", str(tmp_path / "rows"), *out])
    summarize.main([url, "-o", str(summary), "--components", "3", *out])
    assert open_store(url).generation == 0
    assert not summary.exists()
    assert json.loads((tmp_path / "out" / "plan.json").read_text())
    write_summary(stores[0], summary, SketchedPCA(3))
    combine.main([str(summary), "-o", str(tmp_path / "model"), *out])
    assert not (tmp_path / "model").exists()
    assert "no run plan" in capsys.readouterr().out
