"""The benchmark that separates the parts of a sentence representation, and its row of the table of defaults."""

import gzip
import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from dspectral import IntentClassifier, IntentRecipe, SentenceRepresentation
from tests.workflows.intent_folders import write_sets
from workflows.benchmarks import defaults, sentence_parts
from workflows.benchmarks._defaults import sentences as family
from workflows.benchmarks._defaults.halves import designed_on
from workflows.benchmarks._sentences import cells
from workflows.benchmarks._sentences.cells import Cell, Cells
from workflows.benchmarks._sentences.intent_sets import SETS, read_intents, read_queries
from workflows.intent_classification import drawn, with_share


@pytest.fixture
def data(tmp_path):
    return write_sets(tmp_path / "data", ["snips", "trec"])


def test_every_part_has_its_accuracy_and_what_it_adds_to_others(data, tmp_path):
    out = tmp_path / "out"
    asked = [
        "--sets",
        "snips",
        "trec",
        "--labelled",
        "4",
        "all",
        "--shares",
        "0",
        "0.1",
        "1",
        "--queries",
        "50",
    ]
    small = ["--draws", "2", "--n-components", "6"]
    sentence_parts.main(["--data", str(data), *asked, *small, "--out", str(out), "--debug"])
    report = json.loads((out / "report.json").read_text())
    of = {(r["data"], r["labelled"], r["unlabeled"], r["queries"], r["method"]): r for r in report["rows"]}
    amounts = [("4", 0.0, 0), ("4", 0.1, 0), ("4", 1.0, 0), ("4", 1.0, 50), ("all", 1.0, 0), ("all", 1.0, 50)]
    for name in ("snips", "trec"):
        for amount in amounts:
            for method in ("none", "idf", "sketch", "sent", "idf+sent", "auto"):
                assert of[name, *amount, method]["metric"] == "accuracy"
            gained = of[name, *amount, "sent over idf"]["value"]
            both, rarity = (of[name, *amount, method]["value"] for method in ("sent", "idf"))
            assert gained == pytest.approx(both - rarity)
            assert of[name, *amount, "auto"]["settings"]
        tenfold = of[name, "4", 1.0, 0, "sent, ten times the text"]["value"]
        more, less = (of[name, "4", share, 0, "sent"]["value"] for share in (1.0, 0.1))
        assert tenfold == pytest.approx(more - less)
        assert (name, "4", 1.0, 50, "sent, with public queries") in of
        assert of[name, "4", 1.0, 0, "sent"]["value"] > of[name, "4", 1.0, 0, "none"]["value"]
    halves = {row["data"]: row["half"] for row in report["rows"]}
    assert halves == {"snips": "reported", "trec": "designed on"}
    assert "the sketch" in report["answer"]


def test_what_the_table_calls_auto_is_what_the_classifier_chooses(data, monkeypatch):
    arguments = SimpleNamespace(seed=0, n_components=6, parts=cells.PARTS)
    run = SimpleNamespace(arguments=arguments, passes=0, measure=nullcontext)
    monkeypatch.setattr(cells, "PENALTIES", (1.0, 3.0))
    train, test = read_intents(data, "snips")
    table = Cells(run, "snips", train, test, [])
    table.draw(4, [0.1], [], seed=5)
    rows = drawn(train.intents, 4, 5)
    texts = train.at(with_share(len(train.texts), rows, 0.1, 5)).texts
    learned = SentenceRepresentation(6).fit(texts)
    auto = IntentRecipe(half="auto")
    model = IntentClassifier(learned, C=(1.0, 3.0), weights=cells.WEIGHTS, recipe=auto).fit(*train.at(rows))
    cell = Cell("4", 0.1, 0)
    assert table.chosen[cell] == [model.half_]
    right = model.predict(test.texts) == test.intents
    np.testing.assert_array_equal(table.right[cell, "auto"][0], right)


def test_the_text_of_a_share_holds_no_test_sentence_and_the_queries_come_after(data):
    train, test = read_intents(data, "trec")
    assert len(train.texts) == 150
    assert len(test.texts) == 120
    queries = read_queries(data, 30, seed=1)
    assert len(queries) == 30
    assert queries[:10] == read_queries(data, 10, seed=1)


def test_a_design_leaves_the_test_side_alone(data, tmp_path):
    (data / SETS["snips"].test).write_text("text\tintent\nno such sentence\tno such intent\n")
    out = tmp_path / "out"
    asked = ["--sets", "snips", "--labelled", "4", "--shares", "1", "--draws", "1", "--n-components", "6"]
    sentence_parts.main(["--data", str(data), *asked, "--design", "--out", str(out), "--debug"])
    rows = json.loads((out / "report.json").read_text())["rows"]
    assert max(row["value"] for row in rows if row["metric"] == "accuracy") > 0.5


def test_every_other_set_of_intents_is_designed_on():
    assert designed_on(SETS) == {"atis", "clinc150", "newsgroups", "sms", "sst5", "trec"}


def test_sets_of_other_forms_are_read_as_sentences_of_one_class(tmp_path):
    def written(path, content):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(gzip.compress(content.encode()))

    for side in ("train", "test"):
        written(f"multilabel/goemotions/{side}.tsv.gz", "text\tlabel_ids\nfine\t3\nodd\t2,14\n")
        posts = [
            {"label": "sci.med", "text": "From: x\nSubject: RE: Re: hot tea\n\nSubject: no"},
            {"label": "a", "text": ""},
        ]
        written(f"newsgroups20/{side}.jsonl.gz", "\n".join(map(json.dumps, posts)))
        titles = [
            {"topics": ["tea"], "title": "TEA RISES"},
            {"topics": [], "title": "B"},
            {"topics": ["a", "b"], "title": "C"},
        ]
        written(f"reuters21578/modapte_{side}.jsonl.gz", "\n".join(map(json.dumps, titles)))
    written("sms_spam/all.tsv.gz", "text\tlabel\n" + "".join(f"text {i}\tham\n" for i in range(8)))
    found = {name: read_intents(tmp_path, name) for name in ("goemotions", "newsgroups", "reuters", "sms")}
    for name, expected in (
        ("goemotions", ("fine", "3")),
        ("newsgroups", ("hot tea", "sci.med")),
        ("reuters", ("TEA RISES", "tea")),
    ):
        for side in found[name]:
            assert (side.texts, side.intents.tolist()) == ([expected[0]], [expected[1]])
    train, test = found["sms"]
    assert sorted([*train.texts, *test.texts]) == [f"text {i}" for i in range(8)]
    assert len(test.texts) == 2


def test_parts_that_are_not_asked_for_are_not_learned_and_nothing_is_chosen_then(data, tmp_path):
    out = tmp_path / "out"
    asked = ["--sets", "snips", "--labelled", "4", "--shares", "0", "1", "--draws", "2", "--parts", "sent"]
    sentence_parts.main(["--data", str(data), *asked, "--n-components", "6", "--out", str(out), "--debug"])
    rows = {
        (r["method"], r["unlabeled"]): r["value"]
        for r in json.loads((out / "report.json").read_text())["rows"]
    }
    over = "sent, over the labelled sentences alone"
    assert {method for method, _ in rows} == {"none", "sent", over}
    assert rows[over, 1.0] == pytest.approx(rows["sent", 1.0] - rows["sent", 0.0])


def test_defaults_of_sentences_stand_beside_tuned_published_and_peers(data, tmp_path, monkeypatch):
    monkeypatch.setattr(family, "GRID", {"C": (1.0,), "weights": (0.5, 1.0)})
    monkeypatch.setattr(family, "N_COMPONENTS", 6)
    monkeypatch.setattr(family, "DRAWS", 1)
    out = tmp_path / "out"
    asked = ["--methods", "sentences", "--sets", "snips", "--out", str(out), "--debug"]
    defaults.main(["--data", str(data), *asked])
    report = json.loads((out / "report.json").read_text())
    found = {(row["method"], row["metric"]): row for row in report["rows"]}
    for method in family.WAYS:
        assert 0.3 < found[method, "accuracy"]["value"] <= 1
    assert (
        "weight" in found["tuned", "accuracy"]["settings"] or "none" in found["tuned", "accuracy"]["settings"]
    )
    share = found["default", "accuracy"]["value"] / found["tuned", "accuracy"]["value"]
    assert found["default", "share_of_tuned_accuracy"]["value"] == pytest.approx(share)
