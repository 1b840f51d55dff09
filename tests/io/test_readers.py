"""Readers of labelled texts, tagged sentences and other files, and lines that are not UTF-8."""

import gzip
import json

import numpy as np
import pytest

from dspectral.io import (
    read_brown_paths,
    read_conll,
    read_labelled_records,
    read_newsgroups,
    read_reuters,
    read_word2vec,
    write_word2vec,
)

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
        (article().replace("LEWISSPLIT", "SPLIT"), "line 2: the article does not say LEWISSPLIT and TOPICS"),
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


FILES = {
    "a.conll": ("the\tDET\n", "caf\u00e9\tNOUN\n", read_conll),
    "a.paths": ("0\tthe\t2\n", "1\tcaf\u00e9\t1\n", read_brown_paths),
    "a.tsv": ("text\tlabel\n", "caf\u00e9\tx\n", lambda path: list(read_labelled_records(path))),
    "a.jsonl": (
        '{"text": "a", "label": "x"}\n',
        '{"text": "caf\u00e9", "label": "x"}\n',
        lambda path: list(read_labelled_records(path)),
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_in_another_encoding_is_named(tmp_path, name, ending):
    first, line, read = FILES[name]
    path = tmp_path / f"{name}{ending}"
    text = first + line * 3
    compress = gzip.compress if ending else bytes
    path.write_bytes(compress(text.encode("latin-1")))
    with pytest.raises(ValueError, match=rf"{name}{ending}, line 2: not UTF-8 \(.*\); convert the file"):
        read(str(path))
    path.write_bytes(compress(text.encode("utf-16")))
    with pytest.raises(ValueError, match=rf"{name}{ending}, line 1: not UTF-8"):
        read(str(path))
    path.write_bytes(compress(text.encode("utf-8-sig")))
    with_mark = read(str(path))
    path.write_bytes(compress(text.encode()))
    assert with_mark == read(str(path))


def test_a_truncated_file_is_named(tmp_path):
    (tmp_path / "a.conll.gz").write_bytes(gzip.compress(b"the\tDET\n" * 99)[:-9])
    with pytest.raises(ValueError, match=r"a\.conll\.gz is truncated"):
        read_conll(str(tmp_path / "a.conll.gz"))


def test_paths_are_taken_as_their_names_are(tmp_path):
    for name, (first, line, read) in FILES.items():
        (tmp_path / name).write_text(first + line, encoding="utf-8")
        assert read(tmp_path / name) == read(str(tmp_path / name))
    write_word2vec(tmp_path / "v.bin", ["a"], np.ones((1, 2)))
    assert read_word2vec(tmp_path / "v.bin")[0] == ["a"]
    (tmp_path / "posts" / "group").mkdir(parents=True)
    (tmp_path / "posts" / "group" / "1").write_text("x")
    assert list(read_newsgroups(tmp_path / "posts")) == [("x", ("group",))]


def test_sentences_end_at_empty_lines_and_columns_are_counted_from_one(tmp_path):
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress("\n#\tSYM\tx\nTür\tNOUN\ty\r\n\n \nja\tX\tz".encode()))
    found = read_conll(str(path), tag_column=3)
    assert found.words == [["#", "Tür"], ["ja"]]
    assert found.tags == [["x", "y"], ["z"]]


def test_universal_dependencies_are_read_without_comments_and_words_of_several_tokens(tmp_path):
    path = tmp_path / "ud.conllu"
    path.write_text(
        "# text = du chat\n1-2\tdu\t_\t_\n1\tde\tde\tADP\n2\tle\tle\tDET\n2.1\tx\tx\tX\n3\tchat\tchat\tNOUN\n"
    )
    found = read_conll(str(path), word_column=2, tag_column=4)
    assert found == ([["de", "le", "chat"]], [["ADP", "DET", "NOUN"]])


@pytest.mark.parametrize("line", ["Rome", "\tX", "#Rome"])
def test_a_malformed_line_is_named(tmp_path, line):
    path = tmp_path / "bad.conll"
    path.write_text(f"a\tX\n\n{line}\n")
    if line.startswith("#"):
        assert read_conll(str(path)).words == [["a"]]
        return
    with pytest.raises(ValueError, match=r"bad\.conll, line 3 is .* must have 2 columns"):
        read_conll(str(path))


def test_files_without_sentences_and_columns_below_one_are_refused(tmp_path):
    path = tmp_path / "empty.conll"
    path.write_text("\n\n")
    with pytest.raises(ValueError, match="holds no sentence"):
        read_conll(str(path))
    with pytest.raises(ValueError, match="columns begin at 1"):
        read_conll(str(path), tag_column=0)
