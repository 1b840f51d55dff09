"""Labels in every program: one CSV with whole numbers, missing and unseen labels, and the same test documents."""

import numpy as np
import pandas as pd
import pytest

from tests.workflows.programs import report_of

WORDS = [["rain", "cloud", "storm"], ["goal", "match", "coach"], ["bread", "oven", "flour"]]


def table(n, seed, unseen=()):
    """Texts of three subjects, some without a label, and (of the test side) some of a subject that is new."""
    rng = np.random.default_rng(seed)
    rows = [(" ".join(rng.choice(WORDS[i % 3], 5)), i % 3) for i in range(n)]
    rows += [("rain goal", None), ("bread oven bread", None)]
    return pd.DataFrame([*rows, *unseen], columns=["text", "label"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    table(30, 0).to_csv(folder / "train.csv", index=False)  # beside missing ones whole numbers are written 1.0
    test = table(12, 1, [("piano violin", 7), ("violin cello", 7), ("rain piano", 8)])
    test.astype({"label": "Int64"}).to_json(folder / "test.jsonl", orient="records", lines=True)
    return ["--train", str(folder / "train.csv"), "--test", str(folder / "test.jsonl")]


PROGRAMS = {
    "lsi": ("lsi_classification", ["--methods", "none", "--folds", "2", "--C", "1"]),
    "multilabel": ("multilabel", ["--format", "records", "--methods", "default", "--n-states", "2"]),
    "intent": ("intent_classification", ["--columns-bits", "10", "--n-components", "4"]),
    "tmpca": ("tmpca_classification", ["--methods", "svm", "--dimensions", "4"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_unseen_labels_are_errors_and_are_named(name, files, tmp_path):
    program, more = PROGRAMS[name]
    report = report_of(program, tmp_path, *files, *more)
    notes = " ".join(report["notes"])
    assert "15 test" in notes
    assert "7 2, 8 1" in notes
    values = {row["metric"]: row["value"] for row in report["rows"]}
    if name != "tmpca":
        assert "2 test document" in notes
    if name == "lsi":
        assert values["f1_micro"] == pytest.approx(12 / 15)
    elif name == "multilabel":
        assert values["precision_at_1"] <= 12 / 15 + 1e-9
        assert values["auc"] < 0.9
    elif name == "intent":
        assert values["accuracy"] <= 12 / 15 + 1e-9
    else:
        assert values["error_rate"] >= 3 / 15 - 1e-9
