import gzip

import pytest

from dspectral.io import read_conll


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
