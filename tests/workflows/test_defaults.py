"""Every family of the table of defaults on small data sets of its own form."""

import gzip

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from dspectral.datasets import sample_labeled_documents
from dspectral.io import write_labeled_text
from tests.methods.embeddings.test_word_embedding import CLASSES, language
from tests.methods.sentences.test_sentences import sentences
from tests.workflows.programs import report_of, values_of
from workflows.benchmarks import accuracy
from workflows.benchmarks._defaults import families, sets
from workflows.benchmarks._defaults.families import FAMILIES
from workflows.benchmarks._defaults.sets import RULE, designed_on
from workflows.benchmarks.accuracy import margin_and_error

WORDS = {"DET": ["the", "a", "no"], "ADJ": ["red", "big", "new"], "NOUN": ["cat", "dog", "owl"]}
SMALL = {"n_components": 2, "n_states": 4, "n_dimensions": 2, "svd": 2, "min_count": 1, "length": 8, "spelling": 0.0}
SETS = {
    "de_gsd",
    "en_ewt",
    "atis_slots",
    "rg65-first",
    "rg65-second",
    "trec",
    "sms_spam",
    "enron",
    "rcv1-subset1",
    "bibtex",
}


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "\n".join([*lines, ""]).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_lists(folder, pairs, questions):
    for name in sets.LISTS["wordsim"]:
        write(folder / "wordsim" / f"{name}.tsv", ["word1\tword2\tscore", *pairs])
    for name in sets.LISTS["analogy"]:
        write(folder / "analogy" / f"{name}.tsv.gz", ["category\ta\tb\tc\td", *questions])


def tagged_lines(n, seed):
    """Sentences of an article, an adjective and a noun, some twice."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        tags = ("DET", "ADJ", "NOUN") * int(rng.integers(1, 3))
        yield from (f"{rng.choice(WORDS[tag])}\t{tag}\t{tag}\t_" for tag in tags)
        yield ""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Data sets of each form, with a test side and without."""
    folder = tmp_path_factory.mktemp("data")
    for name, parts in {"de_gsd": ("dev", "test"), "en_ewt": ("train", "dev", "test")}.items():
        for seed, side in enumerate(parts):
            write(folder / "pos" / name / f"{side}.conll.gz", tagged_lines(80, seed))
    for seed, path in enumerate(("sentences/trec/train.tsv.gz", "sentences/trec/test.tsv", "sms_spam/all.tsv.gz")):
        texts, classes = sentences(150, seed)
        head = "text\tlabel" if "sms" in path else "text\tcoarse"
        write(folder / path, [head, *(f"{a}\t{b}" for a, b in zip(texts, classes, strict=True))])
    for file in ("train.tsv.gz", "test.tsv"):
        slots = ["to new york\tO B-city I-city\tflight", "from rome\tO B-city\tflight"] * 10
        write(folder / "intent" / "atis" / file, ["text\tslots_bio\tintent", *slots])
    write(folder / sets.TEXT, map(" ".join, language(200)))
    pairs = [(a, b, 10 * (of is other)) for of in CLASSES for other in CLASSES for a in of for b in other if a < b]
    similar = [f"{a}\t{b}\t{score}" for a, b, score in pairs]
    write_lists(folder, similar, [f"x\t{a}\t{b}\t{a}\t{b}" for a, b, _ in pairs])
    words, labels, _ = sample_labeled_documents(600, n_words=30, n_labels=12, n_states=4, seed=2)
    for name, parts in {"enron": ("train", "test"), "rcv1-subset1": ("all",), "bibtex": ("all",)}.items():
        for number, side in enumerate(parts):
            rows = slice(number * 300, 600 if len(parts) == 1 else (number + 1) * 300)
            write_labeled_text(words[rows], str(folder / "plain.txt"), labels[rows])
            write(
                folder / "multilabel" / name / f"{side}.txt.gz",
                (folder / "plain.txt").read_text().splitlines(),
            )
    return folder


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_learns_in_each_way_and_halves_are_told_apart(family, data, tmp_path, monkeypatch):
    for constant, value in {"N_STATES": 3, "N_CLUSTERS": 3, "DIMENSIONS": 5}.items():
        monkeypatch.setattr(families, constant, value)
    monkeypatch.setattr(sets, "MIN_COUNT", 2)
    small = {
        way: {name: (SMALL[name],) if name in SMALL else values[:2] for name, values in grid.items()}
        for way, grid in FAMILIES[family].ways.items()
    }
    monkeypatch.setitem(FAMILIES, family, FAMILIES[family]._replace(ways=small))
    names = SETS & set(FAMILIES[family].sets)
    report = report_of("benchmarks.defaults", tmp_path, "--data", data, "--methods", family, "--sets", *sorted(names))
    values = values_of(report, "data", "method", "metric")
    tuned = {key: value for key, value in values.items() if key[1] == "tuned" and key[2] != "cpu_seconds"}
    assert {name for name, *_ in tuned} == names
    for (name, _, metric), value in tuned.items():
        assert value >= 0.9 * family.endswith("hmm")
        share = values[name, "default", metric] / max(value, 1e-9)
        assert values[name, "default", f"share_of_tuned_{metric}"] == pytest.approx(share)
    assert {(name, way) for name, way, _ in values} >= {(name, way) for name in names for way in small}
    designed = designed_on(FAMILIES[family].sets)
    assert all((row["half"] == "designed on") == (row["data"] in designed) for row in report["rows"])
    assert any(RULE in note for note in report["notes"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_defaults_are_compared_with_the_best_peer_of_each_job(data, tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy, "N_COMPONENTS", 3)
    sets_of = {"intents": "trec", "search": "trec", "topics": "novel", "labels": "enron"}
    texts = [f"{words} word{i % 16} {kind}" for i in range(40) for kind, words in enumerate(("cat purr", "dog bark"))]
    for side in ("train", "test"):
        lines = ["text\tintent", *(f"{text}\t{text[:3]}" for text in texts)]
        write(data / "intent" / "novel" / f"{side}.tsv.gz", lines)
    for job, name in sets_of.items():
        options = ["--jobs", job, "--sets", name, "--labelled", "4", "--draws", "2", "--topics", "2"]
        options += ["--max-rows", "80", "70"]
        report = report_of("benchmarks.accuracy", tmp_path / job, "--data", data, *options)
        rows = report["rows"]
        for metric in {row["metric"] for row in rows}:
            margins = {row["method"]: row["over_peer"] for row in rows if row["metric"] == metric}
            assert margins.keys() > ({"Topics", "Topics of embedder"} if job == "topics" else {"default"})
            assert max(margin for method, margin in margins.items() if method not in accuracy.OURS) == 0
            assert all(row["over_peer_error"] >= 0 for row in rows)
        assert "behind the best peer" in report["answer"]
    errors = [row["over_peer_error"] for row in rows if row["method"] == "default"]
    assert all(0 < error < 0.2 for error in errors)
    assert all(row["n"] <= 70 for row in rows)


def test_jackknife_and_purity_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(3, size=(2, 2000))
    pseudo_values = accuracy.jackknife(normalized_mutual_info_score, truth, predicted)
    assert pseudo_values.mean() == pytest.approx(normalized_mutual_info_score(truth, predicted), abs=1e-3)
    table = contingency_matrix(truth, predicted)
    assert accuracy.is_of_main_label(truth, predicted).mean() == table.max(axis=0).sum() / 2000


def test_the_error_of_a_margin_is_that_of_items_and_draws():
    rng = np.random.default_rng(0)
    actual, reference = rng.random((2, 3, 50))
    margin, error = margin_and_error([*actual], [*reference], paired=True)
    differences = actual - reference
    over_draws = differences.mean(axis=1).std(ddof=1) / np.sqrt(3)
    over_items = differences.mean(axis=0).std(ddof=1) / np.sqrt(50)
    assert (margin, error) == pytest.approx((differences.mean(), np.hypot(over_draws, over_items)))
    _, alone = margin_and_error([actual[0]], [reference[0][:20]], paired=False)
    assert alone**2 == pytest.approx(actual[0].var(ddof=1) / 50 + reference[0][:20].var(ddof=1) / 20)


def test_halves_of_lists_share_no_pair_whichever_word_stands_first(tmp_path):
    write_lists(tmp_path, ["owl\tred\t1", "cat\tred\t2", "red\tcat\t2"], ["x\ta\tb\tc\td"])
    halves = sets._halves(tmp_path)
    first, second = ({frozenset(pair[:2]) for pair in halves[f"rg65-{half}"].pairs} for half in ("first", "second"))
    assert first != second == second - first
    assert len(first | second) == 2
