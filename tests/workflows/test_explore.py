import json

import numpy as np
import pytest

from tests.exploring.texts import two_subjects
from tests.workflows.programs import report_of

SMALL = ["--n-components", "4", "--n-clusters", "6", "--n-dimensions", "8", "--n-mapped", "30"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "garden.txt"
    path.write_text("\n".join(two_subjects()) + "\n", encoding="utf-8")
    return str(path)


def test_a_page_and_a_report_are_written(text, tmp_path, capsys):
    report = report_of("explore", tmp_path / "out", text, *SMALL)
    values = {row["metric"]: row["value"] for row in report["rows"]}
    assert (values["documents"], values["tokens"]) == (240, 240 * 11)
    assert report["passes"] == sum(row["passes"] for row in report["rows"] if "passes" in row)
    page = (tmp_path / "out" / "explore.html").read_text(encoding="utf-8")
    assert "<h1>garden.txt</h1>" in page
    topics = json.loads((tmp_path / "out" / "topics.json").read_text(encoding="utf-8"))
    assert [set(topic) for topic in topics] == [{"words", "documents"}] * 4
    assert all(len(topic["documents"]) == 10 for topic in topics)
    printed = capsys.readouterr().out
    assert f"page: {tmp_path / 'out' / 'explore.html'}" in printed
    assert "240 documents with 2,640 words" in printed


def test_topics_by_a_column_are_written_with_the_topics(tmp_path):
    path = tmp_path / "posts.csv"
    rows = [f"{text};{('sea', 'land')[i % 2]}" for i, text in enumerate(two_subjects())]
    path.write_text("\n".join(["text;about", *rows]), encoding="utf-8")
    report_of("explore", tmp_path / "out", path, "--field", "text", "--by", "about", *SMALL)
    topics = json.loads((tmp_path / "out" / "topics.json").read_text(encoding="utf-8"))
    assert [set(topic["shares"]) for topic in topics] == [{"sea", "land"}] * 4
    assert sum(topic["shares"]["sea"] for topic in topics) == pytest.approx(1)


def test_topics_of_vectors_group_documents_by_these(tmp_path):
    path, kinds = tmp_path / "posts.csv", np.arange(240) % 3  # the words have two other subjects
    rows = [f"{text};{kind}" for text, kind in zip(two_subjects(), kinds, strict=True)]
    path.write_text("\n".join(["text;kind", *rows]), encoding="utf-8")
    rng = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", 5 * np.eye(3, 8)[kinds] + 0.5 * rng.standard_normal((240, 8)))
    options = [
        "--field",
        "text",
        "--by",
        "kind",
        "--vectors",
        str(tmp_path / "v.npy"),
        "--n-components",
        "2",
        *SMALL[2:],
    ]
    report_of("explore", tmp_path / "out", path, *options)
    for topic in json.loads((tmp_path / "out" / "topics.json").read_text(encoding="utf-8")):
        (kind,) = {row % 3 for row in topic["documents"]}
        assert topic["shares"][str(kind)] > 0.9
    page = (tmp_path / "out" / "explore.html").read_text(encoding="utf-8")
    assert "vectors=&#39;v.npy&#39;" in page
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert all(int(row) % 3 == other % 3 for row, near in data["nearest"].items() for other, _ in near)
