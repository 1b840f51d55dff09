"""What a notebook shows of stores, summaries and models."""

from html.parser import HTMLParser

import dask
import fsspec
import numpy as np
import pytest

import dspectral
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.html import card
from dspectral.store import StoreError
from tests.contracts import CASES

HOSTILE = "<script>alert('x')</script>&\"' <b onload=\"y\">"
VOID = {"meta", "br", "img", "input", "link", "hr", "rect", "line", "path"}


class Page(HTMLParser):
    """Tags that were opened and closed in order, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(params=["hashed", "vocabulary", "corpus", "matrix"])
def opened(request):
    """A store or corpus of each kind, and a function that reads it."""
    place, text = f"memory://shown-{request.param}.zarr", "memory://shown.txt"
    with fsspec.open(text, "w") as file:
        file.write("the cat sat\nthe dog sat\n")
    try:
        opened = dspectral.open_corpus(place) if request.param == "corpus" else dspectral.open_store(place)
    except StoreError:
        if request.param == "corpus":
            opened = dspectral.build_corpus(text, place)
        elif request.param == "matrix":
            opened = dspectral.write_counts(np.eye(4), place, block_rows=2)
        else:
            settings = dspectral.VocabularySettings() if request.param == "vocabulary" else None
            opened = dspectral.build_store(text, place, vocabulary=settings)
    return opened


def test_a_store_shows_its_sizes_and_says_nothing_that_it_must_read(opened):
    gone = opened.location._replace(url="s3://user:secret@nowhere/x")  # not there, and not reachable
    opened = type(opened)(**{**vars(opened), "location": gone})
    page = Page(opened._repr_html_())
    assert type(opened).__name__ in page.text
    assert f"{getattr(opened, 'n_tokens', None) or opened.nnz:,}" in page.text
    assert "@nowhere/x" in page.text
    assert "secret" not in page.text
    assert len(repr(opened)) < 200


def test_a_sketch_shows_its_size_and_not_its_numbers():
    value = FrequentDirections.from_block(np.eye(5), size=3)
    assert repr(value).startswith("FrequentDirections(")
    assert "array" not in repr(value)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.filterwarnings("ignore")
def test_every_estimator_shows_the_table_of_scikit_learn_and_reads_nothing_for_it(name, monkeypatch):
    case = CASES[name]
    model = case.make()
    X, y = case.data()
    model.fit(X, y)
    monkeypatch.setattr(dask, "compute", _refused)
    monkeypatch.setattr(dask.base, "compute", _refused)
    assert "sk-estimator" in model._repr_html_()


def _refused(*args, **kwargs):
    raise AssertionError("a representation must read nothing")


def test_names_that_are_code_are_shown_as_text():
    page = Page(card(HOSTILE, [(HOSTILE, HOSTILE)]))
    assert page.text.count("<script>alert('x')") == 3
    assert "script" not in page.tags
    assert "script" not in Page(dspectral.TextFiles(f"memory://{HOSTILE}")._repr_html_()).tags
