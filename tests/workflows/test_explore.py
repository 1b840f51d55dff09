import json

import pytest

from tests.exploring.texts import two_subjects
from workflows import explore

SMALL = ["--n-components", "4", "--n-clusters", "6", "--n-dimensions", "8", "--n-mapped", "30"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "garden.txt"
    path.write_text("\n".join(two_subjects()) + "\n", encoding="utf-8")
    return str(path)


def test_a_page_and_a_report_are_written(text, tmp_path, capsys):
    explore.main([text, "--out", str(tmp_path / "out"), *SMALL])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
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
    explore.main([str(path), "--field", "text", "--by", "about", "--out", str(tmp_path / "out"), *SMALL])
    topics = json.loads((tmp_path / "out" / "topics.json").read_text(encoding="utf-8"))
    assert [set(topic["shares"]) for topic in topics] == [{"sea", "land"}] * 4
    assert sum(topic["shares"]["sea"] for topic in topics) == pytest.approx(1)
