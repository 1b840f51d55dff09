import pytest

from dspectral import load
from tests.workflows.programs import report_of, words
from workflows import pos_induction
from workflows._parts.drawn_sequences import brown_model_sentences


@pytest.fixture
def corpus(tmp_path):
    sample = brown_model_sentences(1500, n_classes=3, n_words=24, length=8, seed=3)
    lines = ["\n".join(f"{word}\tT{sample.classes[word]}" for word in sentence) for sentence in sample.sentences]
    path = tmp_path / "sampled.conll"
    path.write_text("\n\n".join(lines) + "\n")
    return path


def test_methods_are_scored_and_anchors_are_named(tmp_path, corpus):
    options = words(f"--corpus {corpus} --n-states 3 --seeds 2 --em-iterations 5")
    report = report_of("pos_induction", tmp_path, *options)
    rows = [row for row in report["rows"] if "seed" in row]
    actual = {(row["method"], row["metric"], row["seed"]): row["value"] for row in rows}
    assert {method for method, _, _ in actual} == {"em", "brown", "anchor", "anchor+spelling"}
    for method in ("brown", "anchor"):
        assert actual[method, "many_to_one", 0] == actual[method, "v_measure", 1] == pytest.approx(1.0)
    assert actual["em", "many_to_one", 0] < 1.0
    model = load(str(tmp_path / "model"))
    assert model.spelling == pos_induction.SPELLING
    details = [row for row in report["rows"] if row["metric"] == "tokens" and row["method"] == "anchor+spelling"]
    assert [row["anchor"] for row in details] == model.anchors_
    assert sum(row["value"] for row in details) == 1500 * 8
