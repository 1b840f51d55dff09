"""Readers of labelled texts, on small files that are as the collections are packed."""

import gzip
import json

import pytest

from dspectral.io import read_labelled_records, read_newsgroups, read_reuters

ARTICLE = """<REUTERS TOPICS="{said}" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" OLDID="1" NEWID="{number}">
<DATE>26-FEB-1987</DATE>
<TOPICS>{topics}</TOPICS>
<PLACES><D>el-salvador</D></PLACES>
<UNKNOWN>&#5;&#5;&#5;C T</UNKNOWN>
<TEXT>&#2;
{text}
</TEXT>
</REUTERS>
"""
HEAD = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'


def article(
    split="TRAIN", topics=("cocoa",), said="YES", text="<TITLE>Beans</TITLE><BODY>AT&amp;T &lt;T></BODY>"
):
    return ARTICLE.format(
        split=split, topics="".join(f"<D>{t}</D>" for t in topics), said=said, text=text, number=1
    )


def test_records_of_json_have_one_label_or_several(tmp_path):
    records = [
        {"title": "a\tb", "text": "c\u2028d", "topics": ["x", "y"]},
        {"title": None, "text": "e", "topics": []},
        {"title": "f", "text": "", "topics": "z"},
    ]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    found = list(read_labelled_records(str(tmp_path / "a.jsonl.gz"), text=["title", "text"], label="topics"))
    assert found == [("a\tb\nc\u2028d", ("x", "y")), ("\ne", ()), ("f\n", ("z",))]


def test_records_of_a_table_have_one_label(tmp_path):
    (tmp_path / "a.tsv").write_text("label\tid\ttext\nx\t1\tred cat\ny\t2\t\n")
    assert list(read_labelled_records(str(tmp_path / "a.tsv"))) == [("red cat", ("x",)), ("", ("y",))]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"text"', "line 2: not JSON"),
        ("a.jsonl", '["a"]\n', "line 1: expected a JSON object"),
        ("a.jsonl", '{"text": "a"}\n', "line 1: no field 'label', but text"),
        ("a.jsonl", '{"text": 3, "label": "b"}\n', "field 'text' holds 3, not a string"),
        ("a.jsonl", '{"text": "a", "label": [1]}\n', r"field 'label' holds \[1\], not a string or a list"),
        ("a.jsonl", "\n", "line 1: not JSON"),
        ("a.tsv", "text\tlabel\na\n", "line 2: 1 column.s., but the header has 2"),
        ("a.tsv", "text\tintent\na\tb\n", "no field 'label', but text, intent"),
        ("a.csv", "text,label\n", "neither .jsonl nor .tsv"),
    ],
)
def test_a_bad_record_is_named(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=sentence):
        list(read_labelled_records(str(tmp_path / name)))


def test_posts_have_their_folder_as_label_and_keep_their_header(tmp_path):
    for group, post, text in [("sci.space", "60", b"From: a\n\norbit"), ("alt.atheism", "7", b"caf\xe9")]:
        (tmp_path / group).mkdir()
        (tmp_path / group / post).write_bytes(text)
    assert list(read_newsgroups(str(tmp_path))) == [
        ("caf\xe9", ("alt.atheism",)),
        ("From: a\n\norbit", ("sci.space",)),
    ]


def test_a_folder_that_is_not_of_groups_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no post in"):
        list(read_newsgroups(str(tmp_path)))
    (tmp_path / "README").write_text("read me")
    with pytest.raises(ValueError, match=r"README is not a post of a group: expected .*/GROUP/POST"):
        list(read_newsgroups(str(tmp_path)))


def test_the_modapte_split_takes_articles_with_topics_of_its_side(tmp_path):
    parts = [
        article(),
        article("TEST", ("a&amp;b", "trade")),
        article(said="NO"),
        article("NOT-USED"),
        article(said="YES", topics=(), text="unproc text &lt;X>"),
    ]
    (tmp_path / "reut2-000.sgm").write_bytes((HEAD + "".join(parts[:3])).encode())
    (tmp_path / "reut2-001.sgm").write_bytes((HEAD + "".join(parts[3:])).encode() + b"\xfc\n")
    (tmp_path / "README").write_text("not SGML")
    train = list(read_reuters(str(tmp_path), "train"))
    assert train == [("Beans\nAT&T <T>", ("cocoa",)), ("unproc text <X>", ())]
    assert list(read_reuters([str(tmp_path / "reut2-*.sgm")], "test")) == [
        ("Beans\nAT&T <T>", ("a&b", "trade"))
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (article() + article().replace("</REUTERS>", ""), "a.sgm, line 11: the article .* cut short"),
        (article().replace("</REUTERS>", "") + article(), "a.sgm, line 2: the article .* cut short"),
        (
            article().replace("LEWISSPLIT", "SPLIT"),
            "line 2: the article does not say LEWISSPLIT and TOPICS, but",
        ),
        ("nothing", "holds no article"),
    ],
)
def test_a_bad_article_is_named(tmp_path, content, sentence):
    (tmp_path / "a.sgm").write_text(HEAD + content)
    with pytest.raises(ValueError, match=sentence):
        list(read_reuters(str(tmp_path / "a.sgm"), "train"))


def test_a_folder_without_articles_or_another_split_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no \.sgm file at"):
        list(read_reuters(str(tmp_path), "train"))
    with pytest.raises(ValueError, match="split is 'dev', but must be 'train' or 'test'"):
        list(read_reuters(str(tmp_path), "dev"))
