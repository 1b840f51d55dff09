"""The benchmark of what text without labels is worth to a tagger of named entities."""

import json

import pytest

from dspectral.datasets import brown_model_sentences
from workflows._parts.entities import Known, Tagged, features, score
from workflows.benchmarks import named_entities

N_CLASSES, N_WORDS = 4, 40


@pytest.fixture(scope="module")
def sampled():
    """Sentences of four classes of words, and the words of the first class, which are names."""
    found = brown_model_sentences(2000, n_classes=N_CLASSES, n_words=N_WORDS, length=8, seed=3)
    names = {word for word, number in found.classes.items() if number == 0}
    return found.sentences, names


@pytest.fixture
def folder(tmp_path, sampled):
    """A data set whose training side lacks half of the names, and the text."""
    sentences, names = sampled
    unseen = set(sorted(names)[::2])
    (tmp_path / "text.txt").write_text("\n".join(" ".join(sentence) for sentence in sentences))
    (tmp_path / "names").mkdir()
    for n, side in enumerate(("train", "dev", "test")):
        part = sentences[n * 80 : (n + 1) * 80]
        lines = [
            [f"{w}\t{'B-x' if w in names else 'O'}\n" for w in one if side != "train" or w not in unseen]
            for one in part
        ]
        (tmp_path / "names" / f"{side}.conll").write_text("\n".join("".join(of) for of in lines))
    return tmp_path


def test_strings_and_vectors_find_names_that_were_never_tagged_and_one_window_is_chosen_for_all(folder):
    pytest.importorskip("pycrfsuite")
    asked = ["--corpus", str(folder / "text.txt"), "--ner", str(folder / "names"), "--min-count", "1"]
    small = [
        "--n-clusters",
        str(N_CLASSES),
        "--n-components",
        "3",
        "--draws",
        "2",
        "--label-shares",
        "1",
        "0.5",
    ]
    tried = ["--windows", "1", "2", "--prefixes", "1,2", "2"]
    named_entities.main([*asked, *small, *tried, "--out", str(folder / "out"), "--debug"])
    rows = json.loads((folder / "out" / "report.json").read_text())["rows"]
    test = {
        (row["method"], row["label_share"]): row
        for row in rows
        if row["metric"] == "f1" and row["side"] == "test"
    }
    assert set(test) == {(method, share) for method in named_entities.METHODS for share in (1.0, 0.5)}
    for share in (1.0, 0.5):
        none = test["none", share]
        assert none["over_none"] == none["standard_error"] == 0
        for method in ("bits", "vectors", "both"):
            row = test[method, share]
            assert row["over_none"] == pytest.approx(row["value"] - none["value"])
            assert row["over_none"] > (1 if method == "vectors" else 4) * row["standard_error"] > 0
    dev = {
        row["settings"]: row["value"] for row in rows if "label_share" not in row and row["metric"] == "f1"
    }
    assert len(dev) == 4
    assert dev[test["both", 1.0]["settings"]] == max(dev.values())
    assert [test["both", share]["n"] for share in (1.0, 0.5)] == [80, 40]


def test_what_is_known_of_words_reaches_as_far_as_the_window(sampled):
    known = Known({"b": "01"}, {"b": [0.5]}, prefixes=(2,), window=1)
    near, far = features(["a", "b"], known)[0], features(["a", "x", "b"], known)[0]
    assert near["1:p2=01"] == 1.0
    assert near["1:v0"] == 0.5
    assert not {"2:p2=01", "2:v0"} & set(far)
    assert {"2:p2=01", "2:v0"} <= set(features(["a", "x", "b"], known._replace(window=2))[0])
    assert {"3:p2=01", "3:v0"} <= set(features(["a", "x", "y", "b"], known._replace(window=3))[0])


def test_the_penalty_is_chosen_without_the_test_side(monkeypatch):
    pytest.importorskip("pycrfsuite")
    train = [Tagged(["rome", "sleeps"], ["B-x", "O"]), Tagged(["it", "sleeps"], ["O", "O"])] * 5
    wrong = [Tagged(["rome", "sleeps"], ["O", "B-x"])] * 5
    scored = score(train, train, wrong, Known(), penalties=(1000.0, 0.01))
    assert scored.penalty == 0.01
    assert (scored.f1_dev, scored.f1) == (1.0, 0.0)
