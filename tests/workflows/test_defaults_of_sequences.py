"""Word classes and labels of sequences in the table of defaults."""

import gzip
import json

import numpy as np
import pytest
from scipy import sparse

from dspectral.metrics import average_mutual_information
from workflows.benchmarks import defaults
from workflows.benchmarks._defaults import anchors, brown, refinements, tagged_sets
from workflows.benchmarks._defaults.greedy_classes import greedy_classes
from workflows.benchmarks._defaults.halves import designed_on
from workflows.benchmarks._defaults.labelled_sequences import read_task

WORDS = {"DET": ["the", "a", "no"], "ADJ": ["red", "big", "new"], "NOUN": ["cat", "dog", "owl"]}
SETS = ("de_gsd", "en_ewt")


def tagged_lines(n, seed):
    """Sentences of an article, an adjective and a noun, some twice."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        tags = ("DET", "ADJ", "NOUN") * int(rng.integers(1, 3))
        lines += [f"{rng.choice(WORDS[tag])}\t{tag}\t{tag}\t_" for tag in tags]
        lines.append("")
    return gzip.compress("\n".join(lines).encode())


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two tagged data sets, one of them without a training side, and slots."""
    monkeypatch.setattr(anchors, "N_STATES", 3)
    monkeypatch.setattr(anchors, "GRID", {"spelling": (0.0,), "n_sweeps": (0, 10)})
    monkeypatch.setattr(anchors, "EM_PASSES", 2)
    monkeypatch.setattr(refinements, "EM_PASSES", 2)
    monkeypatch.setattr(brown, "N_CLUSTERS", 3)
    monkeypatch.setattr(brown, "GRID", {"n_dimensions": (2, 3), "min_count": (1,)})
    monkeypatch.setattr(refinements, "GRID", {"n_refinements": (1, 2), "n_em_iter": (1,)})
    for name, sides in {"de_gsd": ("dev", "test"), "en_ewt": ("train", "dev", "test")}.items():
        folder = tmp_path / "pos" / name
        folder.mkdir(parents=True)
        for seed, side in enumerate(sides):
            (folder / f"{side}.conll.gz").write_bytes(tagged_lines(80, seed))
    return tmp_path


def found(data, family):
    out = data / "out"
    defaults.main(["--data", str(data), "--methods", family, "--sets", *SETS, "--out", str(out), "--debug"])
    rows = json.loads((out / "report.json").read_text())["rows"]
    return {(row["data"], row["method"], row["metric"]): row for row in rows}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_word_classes_are_tuned_by_half_of_the_tags_and_scored_by_the_others(data):
    rows = found(data, "anchor_hmm")
    for name in SETS:
        for method in ("default", "tuned", "as published", "Brown clusters", "EM"):
            for metric in ("many_to_one", "v_measure"):
                assert 0 <= rows[name, method, metric]["value"] <= 1
        assert rows[name, "tuned", "many_to_one"]["value"] > 0.9
        assert "n sweeps" in rows[name, "tuned", "many_to_one"]["settings"]
    tagged = tagged_sets.read_tagged(data, "en_ewt")
    assert len(tagged.words) == 240
    assert tagged.half(0)[:2] == [0, 2]
    assert tagged.half(1)[:2] == [1, 3]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_clusters_of_words_are_scored_on_sentences_that_were_not_learned_from(data):
    rows = found(data, "brown")
    for name in SETS:
        for method in ("default", "tuned", "as published", "greedy search", "k-means"):
            assert rows[name, method, "average_mutual_information_bits"]["value"] >= 0
        for method in ("default", "tuned", "greedy search"):
            assert rows[name, method, "many_to_one"]["value"] == 1
        assert "min_count 1" in rows[name, "tuned", "many_to_one"]["settings"].split(", ")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_of_sequences_stand_beside_the_plain_model_and_em(data):
    rows = found(data, "refinement_hmm")
    for name in SETS:
        for method in ("default", "tuned", "as published", "plain HMM", "EM"):
            assert rows[name, method, "accuracy"]["value"] > 0.9
        assert "refinements" in rows[name, "tuned", "accuracy"]["settings"]


def test_pairs_across_sentences_do_not_count():
    clusters = {"a": 0, "b": 1}

    def of(words):
        return np.array([clusters[word] for word in words])

    counts = sparse.csr_array(np.array([[0, 2], [1, 0]]))
    expected = average_mutual_information(counts)
    assert brown.information(of, [["a", "b"], ["a", "b", "a"], ["a"]]) == pytest.approx(expected)


def test_the_greedy_search_merges_what_loses_least_information():
    rng = np.random.default_rng(3)
    counts = sparse.csr_array(rng.poisson(2.0, (6, 6)))
    labels = greedy_classes(counts, 5)  # one merge alone, of all six types
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    reached = {}
    for i, j in pairs:
        merged = np.arange(6)
        merged[j] = i
        reached[i, j] = average_mutual_information(counts, merged)
    assert average_mutual_information(counts, labels) == pytest.approx(max(reached.values()))
    assert sorted(set(labels.tolist())) == list(range(5))


def test_slots_are_the_labels_of_questions(tmp_path):
    folder = tmp_path / "intent" / "atis"
    folder.mkdir(parents=True)
    content = "text\tslots_bio\tintent\nto new york\tO B-city I-city\tflight\n"
    (folder / "train.tsv.gz").write_bytes(gzip.compress(content.encode()))
    (folder / "test.tsv").write_text(content)
    task = read_task(tmp_path, "atis_slots")
    assert task.train.tokens == [["to", "new", "york"]]
    assert task.test.labels == [["O", "B-city", "I-city"]]


def test_a_folder_without_sentences_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"de_gsd has no file train\.conll"):
        tagged_sets.read_tagged(tmp_path, "de_gsd")


@pytest.mark.parametrize("family", ["anchor_hmm", "brown", "refinement_hmm"])
def test_five_data_sets_are_left_to_be_reported(family):
    names = defaults.METHODS[family].sets
    assert len(set(names) - designed_on(names)) == 5
