import numpy as np
import pytest

from dspectral import TreePCA, load, write_word2vec
from tests.workflows.programs import report_of, words
from workflows._parts.labeled_texts import read_texts, splits

GOOD, BAD = ["good", "fine", "lovely", "bright"], ["bad", "dull", "awful", "poor"]
FILLER = ["film", "story", "cast", "song", "plot", "scene", "end", "role"]


def reviews(n, seed):
    """Texts of eight words, half of which tell the label; the others say nothing."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for i in range(n):
        words = [*rng.choice(FILLER, 4), *rng.choice(GOOD if i % 2 else BAD, 4)]
        texts.append(" ".join(rng.permutation(words)))
        labels.append("pos" if i % 2 else "neg")
    return texts, labels


def write_tsv(path, n, seed, folds=0):
    rows = [f"{text}\t{label}" for text, label in zip(*reviews(n, seed), strict=True)]
    if folds:
        rows = [f"{row}\t{i // 2 % folds}" for i, row in enumerate(rows)]
    head = "text\tlabel\tcv_fold" if folds else "text\tlabel"
    path.write_text("\n".join([head, *rows]) + "\n")
    return str(path)


@pytest.fixture
def vectors(tmp_path):
    """Two dimensions tell good from bad and filler from both, the others are noise."""
    words = [*GOOD, *BAD, *FILLER, "<?>"]
    matrix = 0.1 * np.random.default_rng(0).standard_normal((len(words), 6))
    matrix[:, 0] += [1.0] * 4 + [-1.0] * 4 + [0.0] * 9
    matrix[:, 1] += [0.0] * 8 + [1.0] * 9
    write_word2vec(str(tmp_path / "vectors.bin"), words, matrix)
    return str(tmp_path / "vectors.bin")


def run(tmp_path, *options):
    report = report_of("tmpca_classification", tmp_path / "out", *options)
    return report, {(row["method"], row.get("form"), row["metric"]): row for row in report["rows"]}


def test_a_test_file_is_scored_by_every_method_and_form(tmp_path, vectors):
    train, test = write_tsv(tmp_path / "train.tsv", 200, 1), write_tsv(tmp_path / "test.tsv", 100, 2)
    options = words(f"--train {train} --test {test} --vectors {vectors} --length 8 --forms 1 2 --plain-test")
    report, rows = run(tmp_path, *options)
    shown = {(method, form) for method, form, _ in rows}
    trees = {("tmpca+svm", form) for form in ("1", "2", "1+2", "chosen")}
    trees |= {("tmpca-sliding+ridge", "1")}
    assert shown == {("svm", "words"), ("mean+svm", "1"), ("pca+svm", "1")} | trees
    for method, form in shown:
        assert rows[method, form, "cpu_seconds"]["value"] > 0
        assert rows[method, form, "peak_memory_bytes"]["value"] > 1 << 20
        assert rows[method, form, "error_rate"]["n"] == 100
    assert rows["svm", "words", "error_rate"]["value"] == 0
    assert rows["mean+svm", "1", "error_rate"]["value"] <= 0.02
    assert rows["tmpca+svm", "1", "error_rate"]["value"] <= 0.1
    model = load(str(tmp_path / "out" / "model"))
    assert isinstance(model, TreePCA)
    assert model.length == 8
    assert report["passes"] == 1 + 0 + 4 + 2 + 2 + 4 + 2


def test_without_a_test_file_each_text_is_classified_once_by_folds(tmp_path, vectors):
    train = write_tsv(tmp_path / "all.tsv", 90, 3, folds=3)
    options = f"--train {train} --vectors {vectors} --length 8 --dimensions 3 --methods tmpca+svm"
    _, rows = run(tmp_path, *words(options))
    assert rows["tmpca+svm", "1", "error_rate"]["n"] == 90
    assert load(str(tmp_path / "out" / "model")).components_[0].shape == (3, 6)
    texts = read_texts(train)
    parts = list(splits(texts, 10, seed=0))
    assert [len(part.test.words) for part in parts] == [30, 30, 30]
    assert all(len(part.train.words) == 60 for part in parts)
    tested = sorted(" ".join(words) for part in parts for words in part.test.words)
    assert tested == sorted(" ".join(words) for words in texts.words)
