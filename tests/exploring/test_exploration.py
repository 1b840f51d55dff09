import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import dspectral
from dspectral.exploring import Sizes
from tests.exploring.texts import GARDEN, SEA, two_subjects

SMALL = Sizes(n_components=4, n_clusters=6, n_dimensions=8, n_mapped=30, n_documents=10)
HOSTILE = "<script>alert(1)</script> <b>bold</b> {{ 7 * 7 }} </title>"


class Page(HTMLParser):
    """Elements, identifiers, links and the text of a page, without scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.ids, self.links, self.text, self.scripts = [], [], [], "", []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.tags.append(tag)
        self._inside = tag if tag in ("script", "style") else ""
        self.ids += [known["id"]] if "id" in known else []
        self.links += [known[name] for name in ("src", "href") if name in known]
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif not self._inside:
            self.text += data

    @property
    def data(self):
        return json.loads(next(script for script in self.scripts if script.startswith('{"words"')))


@pytest.fixture(scope="module")
def found():
    return dspectral.explore(texts=two_subjects(), sizes=SMALL)


@pytest.fixture(scope="module")
def page(found):
    return Page(found.html())


def test_the_page_says_what_the_text_is(found, page):
    assert found.size == {
        "documents": 240,
        "sentences": 480,
        "tokens": 240 * 11,
        "types": len(SEA) + len(GARDEN) + 6 + 4 + 2,
        "bytes": sum(len(text) + 1 for text in two_subjects()),
    }
    assert re.search("240 .*2,640 .*36 ", page.text)
    assert {"words", "map", "classes", "topics", "documents", "made"} <= set(page.ids)
    assert {f"plot-{name}" for name in page.data["plots"]} <= set(page.ids)
    assert "dspectral.explore(texts=texts, seed=0)" in page.text
    assert page.data["plots"].keys() == {"zipf", "map", "documents"}
    most = found.vocabulary
    assert (most.rank_words[0], most.rank_counts[0]) == (most.words[1], most.counts[1])


def test_a_topic_is_of_one_subject(found):
    assert len(found.topics) == 4
    assert sum(topic.share for topic in found.topics) == pytest.approx(1)
    for topic in found.topics:
        nouns = {*topic.words} & {*SEA, *GARDEN}
        assert nouns <= set(SEA) or nouns <= set(GARDEN)
        assert len(topic.documents) == 10
        assert set(topic.excerpts) <= set(topic.documents)
        for row in topic.excerpts:
            assert set(re.findall(r"\w+", found.documents.texts[row][1])) & nouns
    for row, near in found.documents.nearest.items():
        assert [other % 2 == row % 2 for other, _ in near].count(False) == 0


def test_near_words_and_classes_are_of_a_kind(found, page):
    words = found.vocabulary.words
    nouns = {word: subject for subject in (SEA, GARDEN) for word in subject}
    same = [words[found.space.near[i - 1, 0]] in nouns[words[i]] for i in range(1, len(words)) if words[i] in nouns]
    assert np.mean(same) > 0.7
    data = page.data
    assert data["words"] == words
    assert data["near"] == found.space.near.tolist()
    assert len(found.space.points) == min(SMALL.n_mapped, len(words) - 1)
    assert len(data["codes"]) == len(words)


def test_the_page_asks_nothing_of_the_network(found, page):
    assert [link for link in page.links if not link.startswith("#")] == []
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert "default-src 'none'" in found.html()
    assert "@import" not in found.html().split("</style>")[0]


def test_text_that_looks_like_a_page_stays_text(tmp_path):
    hostile = [f"{text} {HOSTILE}" for text in two_subjects(60)]
    path = tmp_path / "<b>name.txt"
    path.write_text("\n".join(hostile), encoding="utf-8")
    made = dspectral.explore(str(path), sizes=SMALL)
    page = Page(made.html())
    clean = Page(dspectral.explore(texts=two_subjects(60), sizes=SMALL).html())
    assert page.tags.count("script") == clean.tags.count("script") == 3
    assert page.tags.count("title") == 1
    assert "<b>name.txt" in page.text
    assert f"dspectral.explore({path.name!r}, seed=0)" in page.text
    assert str(tmp_path) not in made.html()
    assert any("<script>alert(1)</script>" in text for _, text in page.data["documents"].values())
    assert "49" not in page.data["words"]


@pytest.mark.parametrize(
    ("texts", "left_out"),
    [
        (["word"], {"topics", "words"}),
        (["a b", "", "c"], {"topics", "words"}),
        ([f"w{i % 40}" for i in range(400)], {"topics", "words"}),
        (two_subjects(3), {"topics"}),
        ([f"{i % 29} {i % 7} {i % 5} a" for i in range(90)], {"topics", "words"}),
    ],
)
def test_a_short_text_gives_a_page_that_says_what_is_left_out(texts, left_out):
    made = dspectral.explore(texts=texts, sizes=SMALL)
    page = Page(made.html())
    assert made.missing.keys() == left_out
    assert all(reason in page.text for reason in made.missing.values())
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_strings_that_are_no_language_are_counted_and_left_out(found):
    code = "M86QU92!O9B!A(&QO;F<@;&EN92!O9B!T97AT('1H870@:7,@96YC;V1E9"
    texts = [f"{text} {code}" if i % 2 else text for i, text in enumerate(two_subjects())]
    made = dspectral.explore(texts=texts, sizes=SMALL)
    assert made.missing["strings"].startswith("120 strings")
    assert [topic.words for topic in made.topics] == [topic.words for topic in found.topics]


@pytest.mark.filterwarnings("ignore:n_components is")
def test_language_without_blanks_has_pairs_and_a_hint_at_tokenizers():
    clauses = ["\u6771\u4eac\u90fd\u3078\u884c\u304f", "\u96e8\u304c\u964d\u308b\u3060\u308d\u3046"]
    texts = [f"{clauses[i % 2]}\u3002 apt get {i % 40}" for i in range(400)]
    with pytest.warns(UserWarning, match=r"letters.*--tokenizer.*nagisa:wakati"):
        made = dspectral.explore(texts=texts, sizes=SMALL)
    assert made.settings["tokens"] == "characters"
    assert "nagisa:wakati" in Page(made.html()).text
    asked = dspectral.explore(texts=texts, sizes=SMALL, tokens="characters")
    assert asked.warning == ""
    assert asked.vocabulary.words == made.vocabulary.words
    assert "\u6771\u4eac" in made.vocabulary.words
    assert "\u308b\u3060\u308d\u3046" in made.vocabulary.words  # an ending, which is no word of a topic
    assert not any(re.search("[\u3041-\u309f]", word) for topic in made.topics for word in topic.words)


@pytest.mark.filterwarnings("ignore:n_components is")
def test_words_and_excerpts_of_scripts_with_marks_are_whole():
    days = ["\u0930\u0935\u093f\u0935\u093e\u0930", "\u0938\u094b\u092e\u0935\u093e\u0930", "cafe\u0301"]
    texts = [f"{days[i % 3]} {days[i // 3 % 3]} {i % 40}\u0964" for i in range(400)]
    made = dspectral.explore(texts=texts, sizes=SMALL)
    assert set(made.vocabulary.words[1:4]) == {*days[:2], "caf\u00e9"}
    assert (made.warning, made.size["sentences"]) == ("", 400)


def test_what_is_no_text_is_refused():
    with pytest.raises(TypeError, match=r"text 1.*3"):
        dspectral.explore(texts=["a", 3])
    with pytest.raises(TypeError, match=r"texts.*'a b'"):
        dspectral.explore(texts="a b")
    with pytest.raises(ValueError, match=r"sources.*texts"):
        dspectral.explore()
    with pytest.raises(ValueError, match=r"sources.*texts"):
        dspectral.explore("a.txt", texts=["a"])


def test_parts_that_are_not_words_are_masked_and_counted_on_the_page():
    noise = "RT @anna: see https://a.org/b?c=d at 2026-11-26T10:00:00Z"
    texts = [f"{text} {noise} 7f3a09c1{i}" for i, text in enumerate(two_subjects())]
    explored = dspectral.explore(texts=texts, sizes=SMALL)
    assert explored.masked.items() >= {"users": 240, "urls": 240, "timestamps": 240, "ids": 240}.items()
    assert not {"anna", "https", "org", "rt"} & set(explored.vocabulary.words)
    assert "240 urls" in Page(explored.html()).text
    raw = dspectral.explore(texts=texts, sizes=SMALL, clean=["users"])
    assert raw.masked == {"users": 240}
    assert "https" in raw.vocabulary.words
    with pytest.raises(ValueError, match=r"clean.*'links'"):
        dspectral.explore(texts=texts, clean=["links"])


def test_the_map_has_documents_with_their_topics_and_texts(found, page):
    rows, points, numbers = found.document_map
    assert len(rows) == len(points) == len(numbers) == 240
    assert np.abs(points).max() <= 100
    by_number = {topic.number: set(topic.words) & set(SEA) for topic in found.topics}
    own = [bool(by_number[number]) == (row % 2 == 0) for row, number in zip(rows, numbers, strict=True)]
    assert np.mean(own) > 0.9 or np.mean(own) < 0.1
    assert "plot-documents" in page.ids


def write_table(path, values):
    texts = two_subjects(len(values))
    rows = [json.dumps({"text": text, "about": value}) for text, value in zip(texts, values, strict=True)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return texts


def test_topics_by_a_column_are_mean_shares_of_its_groups(tmp_path):
    """Documents are alternately about a garden and the sea, and the groups are just these but for the empty ones."""
    path = tmp_path / "table.jsonl"
    values = [("land", "sea", "", "sea")[i % 4] for i in range(240)]
    texts = write_table(path, values)
    of_records = dspectral.explore(path, field="text", by="about", sizes=SMALL, block_bytes=4_000)
    of_texts = dspectral.explore(texts=texts, by=values, sizes=SMALL)
    by = of_records.topics_by
    assert (by.column, by.names, by.is_time) == ("about", ["sea", "land"], False)
    assert by.n_documents.tolist() == [120, 60]
    assert by.shares.sum(axis=1) == pytest.approx(1)
    np.testing.assert_allclose(by.shares, of_texts.topics_by.shares, atol=1e-6)
    for topic in of_records.topics:
        own = by.names.index("sea" if set(topic.words) & set(SEA) else "land")
        assert by.shares[own, topic.number] > 0.01 > by.shares[1 - own, topic.number]
    page = Page(of_records.html())
    assert "topics-by" in page.ids
    assert "by='about'" in page.text
    assert page.text.count("up to") == 0


def test_columns_that_are_no_groups_are_refused(tmp_path):
    path = tmp_path / "table.jsonl"
    write_table(path, [str(i) for i in range(240)])
    with pytest.raises(ValueError, match=r"by='about'.*240.*24"):
        dspectral.explore(path, field="text", by="about")
    with pytest.raises(ValueError, match="year"):
        dspectral.explore(path, field="text", by="year")
    with pytest.raises(ValueError, match=r"by='about'.*field="):
        dspectral.explore(texts=two_subjects(), by="about")
    with pytest.raises(ValueError, match=r"by.* 3 .*240"):
        dspectral.explore(texts=two_subjects(), by=["a", "b", "a"])


def test_a_folder_of_code_is_explored_by_file(tmp_path):
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "src" / ".git").mkdir()
    (tmp_path / "src" / ".git" / "hidden.py").write_text("hidden = 1")
    for i, text in enumerate(two_subjects(60)):
        folder = tmp_path / "src" / ("inner" if i % 3 else "")
        (folder / f"m{i}.py").write_text(text.replace(". ", ".\n"), encoding="utf-8")
    made = dspectral.explore(tmp_path / "src", sizes=SMALL)
    assert (made.name, made.size["documents"], made.settings["unit"]) == ("src", 60, "file")
    (tmp_path / "src" / "notes.txt").write_text("one line\nanother line\n")
    assert dspectral.explore(tmp_path / "src", sizes=SMALL).size["documents"] == 2


def test_the_lines_of_a_stack_trace_belong_to_the_record_before(tmp_path):
    path = tmp_path / "app.log"
    lines = [f"2026-11-27 04:13:09 ERROR {text}\n  at main\nCaused by: x" for text in two_subjects(60)]
    path.write_text("\n".join(lines), encoding="utf-8")
    made = dspectral.explore(path, sizes=SMALL)
    assert (made.size["documents"], made.settings["unit"]) == (60, "record")
    assert dspectral.explore(path, sizes=SMALL, unit="line").size["documents"] == 180
