"""Readers of labelled texts, tagged sentences and other files, and lines that are not UTF-8."""

import gzip
import json

import pandas as pd
import pytest

from dspectral.io import read_brown_paths, read_conll, read_labeled_records
from workflows._parts.known_collections import read_newsgroups, read_reuters

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


def article(split="TRAIN", topics=("cocoa",), said="YES", text="<TITLE>Beans</TITLE><BODY>AT&amp;T &lt;T></BODY>"):
    return ARTICLE.format(split=split, topics="".join(f"<D>{t}</D>" for t in topics), said=said, text=text, number=1)


def test_records_of_json_have_one_label_or_several(tmp_path):
    records = [
        {"title": "a\tb", "text": "c\u2028d", "topics": ["x", "y"]},
        {"title": None, "text": "e", "topics": []},
        {"title": "f", "text": "", "topics": "z"},
    ]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    actual = list(read_labeled_records(str(tmp_path / "a.jsonl.gz"), text=["title", "text"], label="topics"))
    assert actual == [("a\tb\nc\u2028d", ("x", "y")), ("\ne", ()), ("f\n", ("z",))]


def test_records_of_a_table_have_one_label(tmp_path):
    (tmp_path / "a.tsv").write_text("label\tid\ttext\nx\t1\tred cat\ny\t2\t\n")
    assert list(read_labeled_records(str(tmp_path / "a.tsv"))) == [("red cat", ("x",)), ("", ("y",))]


def test_posts_have_their_folder_as_label_and_keep_their_header(tmp_path):
    for group, post, text in [("sci.space", "60", b"From: a\n\norbit"), ("alt.atheism", "7", b"caf\xe9")]:
        (tmp_path / group).mkdir()
        (tmp_path / group / post).write_bytes(text)
    assert list(read_newsgroups(str(tmp_path))) == [
        ("caf\xe9", ("alt.atheism",)),
        ("From: a\n\norbit", ("sci.space",)),
    ]


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
    assert list(read_reuters([str(tmp_path / "reut2-*.sgm")], "test")) == [("Beans\nAT&T <T>", ("a&b", "trade"))]


def labelled(path):
    return list(read_labeled_records(path))


def reuters(path, split="train"):
    return list(read_reuters(path, split))


RECORD = '{"text": "a", "label": "b"}\n'
CUT_SHORT = ".*article"
BAD = [
    ("a.jsonl", RECORD + '{"text"', labelled, "line 2.*JSON"),
    ("a.jsonl", '{"text": "a"}\n', labelled, "line 1.*'label'.*text"),
    ("a.tsv", "text\tlabel\na\n", labelled, "line 2.*1 column.*2"),
    ("a.tsv", "text\tintent\na\tb\n", labelled, "'label'.*text, intent"),
    ("a.conll", "a\tX\nb\t\n", read_conll, r"line 2 .*column 2"),
    ("a.conll", "a X\n", read_conll, r"line 1 .*1 column"),
    ("a.sgm", HEAD + article() + article().replace("</REUTERS>", ""), reuters, "line 11" + CUT_SHORT),
    ("a.sgm", HEAD + article().replace("</REUTERS>", "") + article(), reuters, "line 2" + CUT_SHORT),
    ("README", "x", lambda path: list(read_newsgroups(path.removesuffix("README"))), "README"),
    *(("a.conll", f"a\tX\n\n{line}\n", read_conll, "a.conll, line 3") for line in ("Rome", "\tX")),
    ("a.conll.gz", gzip.compress(b"the\tDET\n" * 99)[:-9], read_conll, r"a\.conll\.gz"),
]


@pytest.mark.parametrize(("name", "content", "read", "sentence"), BAD)
def test_what_cannot_be_read_is_named(tmp_path, name, content, read, sentence):
    (tmp_path / "no").mkdir()
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=sentence):
        read(str(tmp_path / name))


FILES = {
    "a.conll": ("the\tDET\n", "caf\u00e9\tNOUN\n", read_conll),
    "a.paths": ("0\tthe\t2\n", "1\tcaf\u00e9\t1\n", read_brown_paths),
    "a.tsv": ("text\tlabel\n", "caf\u00e9\tx\n", labelled),
    "a.jsonl": ('{"text": "a", "label": "x"}\n', '{"text": "caf\u00e9", "label": "x"}\n', labelled),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_in_another_encoding_is_named(tmp_path, name, ending):
    first, line, read = FILES[name]
    path = tmp_path / f"{name}{ending}"
    text = first + "".join(line.replace("caf", f"{i}caf") for i in range(3))  # no word of a Brown path twice
    compress = gzip.compress if ending else bytes
    path.write_bytes(compress(text.encode("latin-1")))
    with pytest.raises(ValueError, match=rf"{name}{ending}, line 2.*UTF-8"):
        read(str(path))
    path.write_bytes(compress(text.encode("utf-16")))
    with pytest.raises(ValueError, match=rf"{name}{ending}, line 1.*(UTF-8|encoding)"):
        read(str(path))
    path.write_bytes(compress(text.encode("utf-8-sig")))
    with_mark = read(str(path))
    path.write_bytes(compress(text.encode()))
    assert with_mark == read(str(path))


def test_sentences_end_at_empty_lines_and_columns_are_counted_from_one(tmp_path):
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress("\n#\tSYM\tx\nTür\tNOUN\ty\r\n\n \nja\tX\tz".encode()))
    actual = read_conll(str(path), tag_column=3)
    assert actual.words == [["#", "Tür"], ["ja"]]
    assert actual.tags == [["x", "y"], ["z"]]


def test_conllu_is_read_without_comments_and_multiword_tokens(tmp_path):
    path = tmp_path / "ud.conllu"
    path.write_text(
        "# text = du chat\n1-2\tdu\t_\t_\n1\tde\tde\tADP\n2\tle\tle\tDET\n2.1\tx\tx\tX\n3\tchat\tchat\tNOUN\n"
        "\n3\tx\ty\tX\n2.1\tx\tz\tX\nab\tx\tv\tX\n"
    )
    actual = read_conll(str(path), word_column=2, tag_column=4)
    assert actual == ([["de", "le", "chat"], ["x"] * 3], [["ADP", "DET", "NOUN"], ["X"] * 3])


ROWS = [("hot tea", 1), ("cold milk", 2), ("no label", None), ("ice", 1)]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "floats.csv", "floats.parquet", "json"])
def test_labels_have_one_name_in_every_format(tmp_path, kind):
    frame = pd.DataFrame(ROWS, columns=["text", "label"])  # whole numbers beside a missing one are floats
    if "floats" not in kind:
        frame["label"] = frame["label"].astype("Int64")
    path = tmp_path / f"a.{kind}"
    if kind.endswith("parquet"):
        frame.to_parquet(path)
    elif kind.startswith("json"):
        path.write_text(frame.to_json(orient="records", lines=True))
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    actual = list(read_labeled_records(path))
    assert actual == [("hot tea", ("1",)), ("cold milk", ("2",)), ("no label", ()), ("ice", ("1",))]


def test_booleans_and_blank_lines_and_missing_texts_of_labelled_records(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": true}\n\n{"text": null, "label": "false"}\n')
    (tmp_path / "a.csv").write_text("text;label\r\ra;True\r\n\r\n;FALSE\n")
    for name in ("a.jsonl", "a.csv"):
        path = tmp_path / name
        assert list(read_labeled_records(path)) == [("a", ("True",)), ("", ("False",))]
    path = tmp_path / "a.jsonl"
    assert list(read_labeled_records(path, missing="skip")) == [("a", ("True",))]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 3.*'text'.*missing="):
        list(read_labeled_records(path, missing="error"))
