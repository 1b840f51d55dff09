import pytest

from dspectral import load
from tests.methods.embeddings.test_word_embedding import CLASSES, language
from tests.workflows.programs import report_of, words


@pytest.fixture
def files(tmp_path):
    texts = {
        "text.txt": "\n".join(" ".join(sentence) for sentence in language(200)),
        "pairs.tsv": "word1\tword2\tscore\nred\tblue\t9\nred\tcat\t1\nCat\tdog\t8\nred\towl\t3\n",
        "questions.tsv": "category\ta\tb\tc\td\n" + "x\tred\tblue\tcat\tdog\n" * 4 + "x\ta\tb\tc\td\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in texts]


def test_report_has_the_rows_that_scripts_rely_on(files, tmp_path):
    corpus, pairs, questions = files
    options = f"--corpus {corpus} --min-count 2 --similarity {pairs} --analogies {questions} --n-components 2"
    options += " --window 1 2 --transform sqrt 0.5 --context list"
    rows = report_of("word_embeddings", tmp_path / "out", *words(options))["rows"]
    assert {(row["data"], row["metric"]) for row in rows} == {
        ("pairs", "spearman"),
        ("questions", "accuracy_3cosadd"),
        ("questions", "accuracy_3cosmul"),
        ("text", "cpu_seconds"),
    }
    assert {row["method"] for row in rows} == {"sqrt-cca", "0.5-cca"}
    spearman = [row for row in rows if row["metric"] == "spearman"]
    assert {row["coverage"] for row in spearman} == {0.75}
    assert all(row["value"] > 0.8 for row in spearman)
    assert {row["coverage"] for row in rows if row["data"] == "questions"} == {0.8}
    model = load(tmp_path / "out" / "model")
    assert {word for word, _ in model.most_similar("cat", n=2)} == set(CLASSES[1][1:])
    assert (tmp_path / "out" / "vectors.bin").exists()
