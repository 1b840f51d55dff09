"""Word vectors in the table of defaults."""

import gzip
import json

import pytest

from tests.methods.embeddings.test_word_embedding import CLASSES, language
from workflows.benchmarks import defaults
from workflows.benchmarks._defaults import embeddings
from workflows.benchmarks._defaults.halves import designed_on

WORDS = [word for words in CLASSES for word in words]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A small text, and lists in which words of one class are alike."""
    pytest.importorskip("gensim")
    monkeypatch.setattr(embeddings, "GRID", {"window": (1,), "power": (0.0, 0.7), "n_components": (2,)})
    monkeypatch.setattr(embeddings, "PEER", {"vector_size": 5, "epochs": 1})
    monkeypatch.setattr(embeddings, "MIN_COUNT", 2)
    monkeypatch.setattr(embeddings, "_KEPT", {})
    folder = tmp_path / "data"
    for name in ("corpus", "wordsim", "analogy"):
        (folder / name).mkdir(parents=True)
    text = "\n".join(" ".join(sentence) for sentence in language(200))
    (folder / embeddings.TEXT).write_bytes(gzip.compress(text.encode()))
    pairs = [
        (a, b, 10 * (of is other)) for of in CLASSES for other in CLASSES for a in of for b in other if a < b
    ]
    for name in embeddings.SIMILARITY:
        lines = ["word1\tword2\tscore", *(f"{a}\t{b}\t{score}" for a, b, score in pairs)]
        (folder / "wordsim" / f"{name}.tsv").write_text("\n".join(lines))
    questions = ["category\ta\tb\tc\td", *(f"x\t{a}\t{b}\t{a}\t{b}" for a, b, _ in pairs)]
    for name in embeddings.ANALOGIES:
        (folder / "analogy" / f"{name}.tsv.gz").write_bytes(gzip.compress("\n".join(questions).encode()))
    return folder


@pytest.mark.filterwarnings("ignore:n_components is:UserWarning")
def test_vectors_are_learned_once_and_scored_on_halves_of_lists(data, tmp_path):
    out = tmp_path / "out"
    sets = ["rg65-first", "rg65-second", "yp130-second"]
    asked = ["--methods", "embeddings", "--sets", *sets]
    defaults.main(["--data", str(data), *asked, "--out", str(out), "--debug"])
    report = json.loads((out / "report.json").read_text())
    found = {(row["data"], row["method"], row["metric"]): row for row in report["rows"]}
    for method in ("tuned", *embeddings.WAYS):
        halves = [found[f"rg65-{half}", method, "spearman"] for half in ("first", "second")]
        assert [row["half"] for row in halves] == ["designed on", "reported"]
        seconds = {found[name, method, "cpu_seconds"]["value"] for name in ("rg65-first", "yp130-second")}
        assert method == "tuned" or len(seconds) == 1
    assert found["rg65-second", "tuned", "spearman"]["value"] > 0.5
    assert "window 1, power" in found["rg65-second", "tuned", "spearman"]["settings"]


def test_halves_of_lists_share_no_pair_whichever_word_stands_first(data):
    (data / "wordsim" / "ws353.tsv").write_text("word1\tword2\tscore\nowl\tred\t1\ncat\tred\t2\n")
    halves = embeddings._halves(data)
    pairs = {
        half: {
            frozenset(pair[:2]) for name in embeddings.SIMILARITY for pair in halves[f"{name}-{half}"].pairs
        }
        for half in embeddings.HALVES
    }
    assert not pairs["first"] & pairs["second"]
    assert pairs["first"]
    assert pairs["second"]


def test_first_halves_are_those_that_the_rule_designs_on():
    names = embeddings.FAMILY.sets
    assert designed_on(names) == {name for name in names if name.endswith("-first")}
