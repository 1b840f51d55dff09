"""The comparison of what is left of trees: who is chosen on what."""

import gzip
import json

import numpy as np
import pytest

from dspectral import write_word2vec
from workflows._parts.labelled_texts import Texts
from workflows.benchmarks import tree_features
from workflows.benchmarks.tree_features import CHOSEN_ON, REPORTED_ON, SETS, fifth, sides

WORDS = ["who", "where", "sat", "ran", "cat", "mat"]


def write(path, column, n, seed):
    """The first of four words tells the label."""
    rng = np.random.default_rng(seed)
    rows = [
        f"{' '.join(row)}\t{row[0]}"
        for row in ([rng.choice(WORDS[:2]), *rng.choice(WORDS, 3)] for _ in range(n))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt") as file:
        file.write("\n".join([f"text\t{column}", *rows]) + "\n")


@pytest.fixture
def data(tmp_path):
    write(tmp_path / "sentences/trec/train.tsv.gz", "coarse", 100, 1)
    write(tmp_path / "sentences/trec/test.tsv", "coarse", 30, 2)
    write(tmp_path / "sentiment/mr/all.tsv.gz", "label", 60, 3)
    write(tmp_path / "intent/atis/train.tsv.gz", "intent", 50, 4)
    write(tmp_path / "intent/atis/dev.tsv", "intent", 20, 5)
    write_word2vec(str(tmp_path / "v.bin"), ["<?>", *WORDS], np.vstack([np.ones(6), np.eye(6)]))
    return tmp_path


def test_the_halves_are_every_other_name_in_alphabetical_order():
    assert list(SETS) == sorted(SETS)
    assert CHOSEN_ON == ("atis", "clinc150", "sms_spam", "sst2", "trec")
    assert sorted(CHOSEN_ON + REPORTED_ON) == sorted(SETS)


def test_what_is_chosen_on_holds_no_test_text(data):
    chosen = sides(data, SETS["trec"], choose=True, seed=0)
    assert (len(chosen.train.words), len(chosen.test.words)) == (80, 20)
    told = sides(data, SETS["trec"], choose=False, seed=0)
    assert (len(told.train.words), len(told.test.words)) == (100, 30)
    dev = sides(data, SETS["atis"], choose=True, seed=0)
    assert (len(dev.train.words), len(dev.test.words)) == (50, 20)
    chosen, told = (sides(data, SETS["mr"], choose=choose, seed=0) for choose in (True, False))
    assert (len(told.train.words), len(told.test.words)) == (48, 12)
    assert len(chosen.train.words) + len(chosen.test.words) == len(told.train.words)


def test_each_method_is_told_beside_pca(data):
    methods = ["words", "mean", "pca", "root", "root-arity-3", "levels", "pooled", "pooled-whitened"]
    methods += ["sliding", "pca-kernel", "sliding-kernel"]
    options = ["--data", str(data), "--vectors", str(data / "v.bin"), "--sets", "trec", "--length", "4"]
    tree_features.main([*options, "--methods", *methods, "--out", str(data / "out")])
    rows = json.loads((data / "out" / "report.json").read_text())["rows"]
    errors = {row["method"]: row for row in rows if row["metric"] == "error_rate"}
    assert list(errors) == methods
    for method in ("pooled", "sliding", "sliding-kernel"):
        assert errors[method]["value"] == 0  # the first word is among them
    assert errors["mean"]["value"] > 0.05  # where a word stands is not in it
    assert errors["pca"]["over_pca"] == 0
    assert {row["half"] for row in errors.values()} == {"chosen on"}
    inner = {row["method"]: row["value"] for row in rows if row["metric"] == "inner_error_rate"}
    assert list(inner) == methods
    assert inner["sliding"] < inner["mean"]
    kept = {row["method"]: row["value"] for row in rows if row["metric"] == "retained_share"}
    assert kept["root"] <= kept["pca"] + 1e-3


def test_a_fifth_has_the_labels_of_the_whole():
    texts = Texts([[str(i)] for i in range(50)], np.array(["a", "b"] * 25))
    found = fifth(texts, 0)
    assert (found.test.labels == "a").sum() == 5
