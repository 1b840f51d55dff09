"""Every door that takes a path takes the same ones: in a home, relative, with blanks, as a URL and as a Path."""

import re
from pathlib import Path

import numpy as np
import pytest

import dspectral
from dspectral import io
from dspectral.paths import expand_path
from workflows._form.options import local_path

NAME = "größe one"
"""Of a folder: with a blank and a letter beyond ASCII."""
FORMS = {
    "home": lambda folder: f"~/{folder.name}",
    "relative": lambda folder: folder.name,
    "URL": lambda folder: folder.as_uri(),
    "plain URL": lambda folder: f"file://{folder}",
    "Path": lambda folder: folder,
    "Path in a home": lambda folder: Path("~", folder.name),
    "slash": lambda folder: f"{folder}/",
}


@pytest.fixture(params=FORMS)
def written(request, tmp_path, monkeypatch):
    """Return a function that writes the path of a name in the folder in one way, and the folder."""
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.chdir(tmp_path)
    form = FORMS[request.param](folder)

    def path(name):
        if isinstance(form, Path):
            return form / name
        return f"{form.rstrip('/')}/{name}" + ("/" if request.param == "slash" and "." not in name else "")

    yield path, folder
    # Nothing beside: neither a folder "~" nor one "file:".
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


def test_stores_corpora_and_coordinates_lie_where_a_path_says(written):
    path, folder = written
    (folder / "text.txt").write_text("red wine\nwhite wine\n")
    dspectral.build_store(path("text.txt"), path("counts"))
    dspectral.build_store([path("text.txt")], path("counts"), append=True)
    assert len(dspectral.open_store(path("counts"))) == 4
    dspectral.build_corpus(path("text.txt"), path("corpus"), min_count=1)
    assert dspectral.open_corpus(path("corpus")).n_sentences == 2
    dspectral.write_counts(np.eye(3), path("eye"))
    dspectral.store.discard_unfinished(path("eye"))
    with dspectral.checkpoints(path("parts")):
        model = dspectral.TruncatedSVD(1, solver="gram").fit(dspectral.open_store(path("eye")))
    assert dspectral.clear_checkpoints(path("parts")).n_files
    dspectral.write_coordinates(model, dspectral.open_store(path("eye")), path("points.zarr"))
    assert dspectral.open_coordinates(path("points.zarr")).array.shape == (3, 1)
    assert dspectral.TextFiles(path("*.txt")).n_documents == 2
    assert dspectral.plan(dspectral.TruncatedSVD(1).fit, path("eye")).n_blocks == 1


def test_models_and_files_of_other_programs_lie_where_a_path_says(written):
    path, folder = written
    dspectral.save(dspectral.PCA(1).fit(np.eye(3)), path("model"))
    assert dspectral.load(path("model")).n_components_ == 1
    dspectral.write_word2vec(path("words.bin"), ["red"], np.ones((1, 2)))
    assert dspectral.read_word2vec(path("words.bin"))[0] == ["red"]
    io.write_labeled_text(np.eye(2), path("rows.svm"), np.eye(2), format="svmlight")
    io.build_labeled_store(path("rows.svm"), path("labeled"), format="svmlight")
    assert dspectral.open_store(path("labeled")).shape == (2, 2)
    io.write_brown_paths(path("paths.txt"), ["01"], ["red"], [3])
    assert io.read_brown_paths(path("paths.txt"))
    (folder / "two.conll").write_text("red\tA\n")
    assert io.read_conll(path("two.conll"), word_column=1, tag_column=2).words == [["red"]]
    (folder / "two.jsonl").write_text('{"text": "red", "label": "A"}\n')
    assert next(io.read_labeled_records(path("two.jsonl"))).text == "red"
    io.write_anndata(dspectral.open_store(path("labeled")), path("rows.h5ad"))
    assert dspectral.open_store(path("rows.h5ad")).shape == (2, 2)
    io.write_embedding(path("rows.h5ad"), dspectral.PCA(1).fit(np.eye(2)), np.ones((2, 1)))
    assert expand_path(path("model")).rstrip("/").endswith(f"{NAME}/model")


def test_a_page_is_written_where_a_path_says(written):
    path, folder = written
    page = dspectral.explore(texts=["red wine", "white wine", "red and white"] * 4, scratch=path("scratch"))
    page.save(path("page.html"))
    assert sorted(file.name for file in folder.iterdir()) == ["page.html", "scratch"]


@pytest.mark.parametrize("wrong", [None, 3, b"/tmp/x", ""])
def test_what_is_no_path_is_refused(wrong):
    for door in (dspectral.open_store, dspectral.open_corpus, dspectral.load, dspectral.open_coordinates):
        with pytest.raises(TypeError, match=rf"path.*{re.escape(repr(wrong))}"):
            door(wrong)


def test_programs_write_into_a_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_path("~/out") == tmp_path / "out"
    with pytest.raises(Exception, match="s3://a/b"):
        local_path("s3://a/b")
