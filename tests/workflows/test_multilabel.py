import json

import numpy as np
import pytest

from dspectral import load
from dspectral.datasets import sample_labeled_documents
from dspectral.io import write_labeled_text
from tests.workflows.programs import report_of, values_of, words
from workflows import multilabel

METRICS = {"auc", "precision_at_1", "precision_at_3", "precision_at_5", "ndcg_at_5"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    words, labels, _ = sample_labeled_documents(700, n_words=80, n_labels=12, n_states=4, seed=2)
    write_labeled_text(words[:500], str(folder / "train.txt"), labels[:500])
    write_labeled_text(words[500:], str(folder / "test.txt"), labels[500:])
    return folder


def test_every_method_ranks_and_the_report_says_how_well(files, tmp_path):
    options = f"--train {files}/train.txt --test {files}/test.txt --n-states 3 4 --iterations 3"
    report = report_of("multilabel", tmp_path, *words(options))
    actual = values_of(report, "method", "n_states", "metric")
    assert {method for method, _, _ in actual} == set(multilabel.METHODS)
    for (_, _, metric), value in actual.items():
        assert value > 0
        assert metric not in METRICS or value <= 1
    assert actual["moments+linear", 4, "auc"] > 0.8
    assert all(actual[method, 4, "auc"] > 0.75 for method in multilabel.METHODS if method != "one-vs-rest")
    model = load(str(tmp_path / "model"))
    assert model.n_states == 4
    assert (tmp_path / "auc.png").exists()


def test_records_of_text_are_counted_by_the_training_side(tmp_path):
    rng = np.random.default_rng(0)
    drawn = [rng.choice(4, size=rng.integers(3), replace=False) for _ in range(200)]
    with (tmp_path / "train.jsonl").open("w") as file:
        for topics in drawn:
            text = [f"t{topic}x{word}" for topic in topics for word in rng.integers(9, size=6)]
            text += [f"w{word}" for word in rng.integers(12, size=6)]
            file.write(json.dumps({"text": " ".join(text), "topics": [f"topic{topic}" for topic in topics]}) + "\n")
    options = f"--format records --train {tmp_path}/train.jsonl --label topics --n-states 4 --iterations 3"
    report = report_of("multilabel", tmp_path / "out", *words(f"{options} --methods moments+linear --terms 40"))
    # Documents without a label cannot be scored; they are learned from.
    n_test = round(sum(topics.size > 0 for topics in drawn) / 2)
    sizes = f"{200 - n_test} training and {n_test} test documents, 40 words, 4 labels"
    assert any(sizes in note for note in report["notes"])
    assert all(row["value"] > 0.9 for row in report["rows"] if row["metric"] == "auc")
