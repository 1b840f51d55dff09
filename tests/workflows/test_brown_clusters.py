import pytest

from dspectral import load
from dspectral.io import read_brown_paths
from tests.workflows.programs import report_of
from workflows._parts.drawn_sequences import brown_model_sentences


@pytest.fixture
def corpus(tmp_path):
    sentences = brown_model_sentences(3000, n_classes=4, n_words=24, length=8, seed=3).sentences
    path = tmp_path / "sampled.txt"
    path.write_text("".join(" ".join(map(str, sentence)) + "\n" for sentence in sentences))
    return path


def run(tmp_path, corpus, *more):
    out = tmp_path / "out"
    return out, report_of("brown_clusters", out, "--corpus", corpus, "--min-count", "1", *more)


def values(report, metric):
    return {(row["method"], row["n_clusters"]): row["value"] for row in report["rows"] if row["metric"] == metric}


def test_clusters_are_reported_written_and_saved(tmp_path, corpus):
    out, report = run(tmp_path, corpus, "--n-clusters", "4", "2", "--plain")
    information = values(report, "average_mutual_information_bits")
    assert information["spectral+exchange", 4] >= information["spectral", 4]
    assert information["spectral+exchange", 4] > information["spectral+exchange", 2] > 0
    assert ("plain", 4) in information
    assert all(value > 0 for value in values(report, "cpu_seconds").values())
    lines = read_brown_paths(str(out / "paths-4"))
    assert len({code for code, _, _ in lines}) == 4
    model = load(str(out / "model"))
    assert {word: code for code, word, _ in lines} == dict(zip(model.words_, model.codes(), strict=True))


def test_bit_strings_help_to_tag_words_that_were_never_tagged(tmp_path, corpus):
    pytest.importorskip("pycrfsuite")
    classes = brown_model_sentences(1, n_classes=4, n_words=24, length=8, seed=3).classes
    names = {word for word, kind in classes.items() if kind == 0}
    left_out, options = {"train": {*sorted(names)[::2]}, "dev": (), "test": ()}, []
    for side, unseen in left_out.items():
        lines = []
        for sentence in corpus.read_text().splitlines()[:400]:
            kept = [word for word in sentence.split() if word not in unseen]
            lines += [*(f"{word}\t{'B-x' if word in names else 'O'}" for word in kept), ""]
        (tmp_path / side).write_text("\n".join(lines))
        options += [f"--ner-{side}", tmp_path / side]
    _, report = run(tmp_path, corpus, "--n-clusters", "4", *options)
    actual = values(report, "f1")
    assert actual["clusters", 4] > actual["baseline", 4]
