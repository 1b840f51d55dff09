import json

import numpy as np
import pytest

from dspectral import load
from dspectral.datasets import sample_labelled_documents
from dspectral.store.labelled_text import build_labelled_store, write_labelled_text
from workflows import multilabel
from workflows.multilabel_baselines import LowRank, OneVsRest

METRICS = {"auc", "precision_at_1", "precision_at_3", "precision_at_5", "ndcg_at_5"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    words, labels, _ = sample_labelled_documents(700, n_words=80, n_labels=12, n_states=4, seed=2)
    write_labelled_text(words[:500], str(folder / "train.txt"), labels[:500])
    write_labelled_text(words[500:], str(folder / "test.txt"), labels[500:])
    return folder


def test_every_method_ranks_and_the_report_says_how_well(files, tmp_path):
    arguments = ["--train", str(files / "train.txt"), "--test", str(files / "test.txt")]
    multilabel.main(
        [*arguments, "--n-states", "3", "4", "--out", str(tmp_path), "--iterations", "3", "--debug"]
    )
    report = json.loads((tmp_path / "report.json").read_text())
    found = {(row["method"], row["n_states"], row["metric"]): row["value"] for row in report["rows"]}
    assert {method for method, _, _ in found} == set(multilabel.METHODS)
    for (_, _, metric), value in found.items():
        assert value > 0
        assert metric not in METRICS or value <= 1
    assert found["moments+linear", 4, "auc"] > 0.8
    assert all(found[method, 4, "auc"] > 0.75 for method in multilabel.METHODS if method != "one-vs-rest")
    model = load(str(tmp_path / "model"))
    assert model.n_states == 4
    assert (tmp_path / "auc.png").exists()


def test_too_many_states_are_noted_and_the_rest_goes_on(files, tmp_path):
    arguments = [
        "--train",
        str(files / "train.txt"),
        "--test",
        str(files / "test.txt"),
        "--out",
        str(tmp_path),
    ]
    multilabel.main([*arguments, "--n-states", "80", "4", "--methods", "moments-unbiased"])
    report = json.loads((tmp_path / "report.json").read_text())
    assert any("independent direction" in note for note in report["notes"])
    assert {row["n_states"] for row in report["rows"]} == {4}


def test_low_rank_reaches_the_ridge_regression_of_full_rank(files, tmp_path):
    store = build_labelled_store(str(files / "train.txt"), str(tmp_path / "a"))
    X = (store.counts.compute().toarray() > 0).astype(float)
    Y = store.labels.compute().toarray()
    model = LowRank(12, iterations=30, steps=20, penalty=1e-3).fit(store)
    best = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    ours = model.decision_function(store.counts.compute())
    assert np.linalg.norm(ours - Y) < 1.05 * np.linalg.norm(best - Y)
    assert model.n_passes == 30 * 22 + 1


def test_a_label_that_none_has_is_never_predicted(files, tmp_path):
    store = build_labelled_store(str(files / "train.txt"), str(tmp_path / "a"), n_labels=13)
    scores = OneVsRest().fit(store).decision_function(store.counts.compute())
    assert (scores[:, 12] == -30.0).all()
