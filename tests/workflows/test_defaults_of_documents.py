"""Latent semantic indexing and trees in the table of defaults."""

import gzip
import json

import numpy as np
import pytest

from tests.methods.sentences.test_sentences import sentences
from workflows._parts.labelled_texts import Texts
from workflows.benchmarks import defaults
from workflows.benchmarks._defaults import document_sets, lsi, tree
from workflows.benchmarks._defaults.halves import designed_on

LABELS = {"trec": "coarse", "sms_spam": "label"}
PATHS = {
    "trec": ("sentences/trec/train.tsv.gz", "sentences/trec/test.tsv"),
    "sms_spam": ("sms_spam/all.tsv.gz",),
}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data set with a test side, and one without."""
    monkeypatch.setattr(tree, "GRID", {"output": ("root", "pooled"), "length": (8,)})
    monkeypatch.setattr(tree, "DIMENSIONS", 5)
    for name, paths in PATHS.items():
        for seed, path in enumerate(paths):
            texts, classes = sentences(120, seed)
            lines = [f"text\t{LABELS[name]}", *(f"{a}\t{b}" for a, b in zip(texts, classes, strict=True))]
            content = ("\n".join(lines) + "\n").encode()
            (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / path).write_bytes(gzip.compress(content) if path.endswith("gz") else content)
    return tmp_path / "data"


def found(data, out, family):
    defaults.main(["--data", str(data), "--methods", family, "--sets", *PATHS, "--out", str(out), "--debug"])
    rows = json.loads((out / "report.json").read_text())["rows"]
    return {(row["data"], row["method"], row["metric"]): row for row in rows}


@pytest.mark.parametrize("family", ["lsi", "local_lsi"])
def test_spaces_of_documents_stand_beside_plain_ones_and_words(data, tmp_path, monkeypatch, family):
    small = {"n_components": (2, 4), "C": (0.001, 1.0)}
    monkeypatch.setitem(defaults.METHODS, "lsi", _family(lsi.hybrid, {"C": (1.0,)}, small))
    monkeypatch.setitem(defaults.METHODS, "local_lsi", _family(lsi.local, lsi.OWN, small))
    rows = found(data, tmp_path / "out", family)
    for name in PATHS:
        for method in ("default", "tuned", "as published", "LSI", "words alone"):
            assert 0.3 < rows[name, method, "f1_weighted"]["value"] <= 1
        assert "n_components" in rows[name, "tuned", "f1_weighted"]["settings"]
        assert "C " in rows[name, "default", "f1_weighted"]["settings"]
    assert {row["half"] for (name, *_), row in rows.items() if name == "trec"} == {"designed on"}
    assert {row["half"] for (name, *_), row in rows.items() if name == "sms_spam"} == {"reported"}


def _family(model, default, grid):
    ways = lsi.of(model, default, grid, {**grid, "n_components": (4,)})
    return lsi.FAMILY._replace(found=ways)


def test_a_set_without_a_test_side_is_parted_and_rows_know_the_training_side_alone(data):
    sides = document_sets.read_documents(data, "sms_spam")
    assert [side.rows.shape[0] for side in (sides.train, sides.test)] == [90, 30]
    assert sides.exclusive
    np.testing.assert_allclose(np.sqrt(sides.train.rows.power(2).sum(axis=1)), 1.0)


def test_articles_have_several_classes_and_those_seen_once_do_not_count(tmp_path):
    folder = tmp_path / "reuters21578"
    folder.mkdir()
    records = [{"title": "Corn", "text": "corn rose", "topics": ["corn", "grain"]}] * 3
    records += [{"title": "Tea", "text": "tea rose", "topics": ["tea"]}] * 2
    records += [
        {"title": "Gold", "text": "gold rose", "topics": ["gold"]},
        {"title": "", "text": "", "topics": []},
    ]
    for side in ("train", "test"):
        lines = "\n".join(map(json.dumps, records))
        (folder / f"modapte_{side}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    sides = document_sets.read_documents(tmp_path, "reuters21578")
    assert not sides.exclusive
    assert sides.train.members.toarray().tolist() == [[1, 1, 0]] * 3 + [[0, 0, 1]] * 2


def test_trees_stand_beside_components_means_and_words(data, tmp_path):
    rows = found(data, tmp_path / "out", "tree")
    for name in PATHS:
        for method in ("default", "tuned", "as published", "PCA", "mean of the words", "words"):
            assert 0 <= rows[name, method, "accuracy"]["value"] <= 1
        assert rows[name, "tuned", "accuracy"]["settings"] in {"root, 8 words", "pooled, 8 words"}
    assert rows["trec", "words", "accuracy"]["value"] > 0.5


def test_texts_of_a_large_side_are_drawn_without_labels_that_occur_once(monkeypatch):
    monkeypatch.setattr(tree, "MOST", 12)
    labels = np.array(["a", "b"] * 10 + ["once"])
    drawn = tree._drawn(Texts([[label] for label in labels], labels), seed=0)
    assert len(drawn.words) == 12
    assert set(drawn.labels) == {"a", "b"}


@pytest.mark.parametrize("family", ["lsi", "local_lsi", "tree"])
def test_five_data_sets_or_four_are_left_to_be_reported(family):
    names = defaults.METHODS[family].sets
    assert len(set(names) - designed_on(names)) == (4 if family == "tree" else 5)
