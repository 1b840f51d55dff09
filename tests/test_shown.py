"""What a notebook shows of stores, summaries and models."""

from html.parser import HTMLParser

import dask
import fsspec
import numpy as np
import pytest

import dspectral
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import Moments
from dspectral.decomposition.spectrum import Certificate
from dspectral.html import card, number, spectrum_picture
from dspectral.inputs.fitted_facts import render_fitted_card
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


@pytest.mark.parametrize(
    "value",
    [
        Certificate(2.0, 0.125),
        FrequentDirections.from_block(np.eye(5), size=3),
        Moments.from_block(np.eye(3)),
    ],
)
def test_summaries_and_certificates_show_what_they_bound(value):
    page = Page(value._repr_html_())
    assert type(value).__name__ in page.text
    assert "array" not in page.text
    if isinstance(value, Certificate):
        assert "12.5 %" in page.text
    if isinstance(value, FrequentDirections):
        assert repr(value).startswith("FrequentDirections(")
        assert "array" not in repr(value)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.filterwarnings("ignore")
def test_every_estimator_shows_the_diagram_and_once_fitted_what_it_has_learned(name, monkeypatch):
    case = CASES[name]
    model = case.make()
    plain = model._repr_html_()
    assert "fitted_" not in plain
    assert render_fitted_card(model) == ""
    X, y = case.data()
    model.fit(X, y)
    monkeypatch.setattr(dask, "compute", _refused)
    monkeypatch.setattr(dask.base, "compute", _refused)
    html = model._repr_html_()
    assert "sk-estimator" in html
    bundle = model._repr_mimebundle_()
    assert bundle["text/html"].count("sk-estimator") == html.count("sk-estimator")
    if name != "NgramHashing":  # nothing to learn
        page = Page(render_fitted_card(model))
        assert f"{name}, fitted" in page.text
        assert render_fitted_card(model) in html
        assert "script" not in page.tags
        if name == "EMHMM":
            first, last = (number(model.log_likelihoods_[i]) for i in (0, -1))
            assert f"{first} to {last} in {model.n_passes_} step(s)" in page.text
        has_spectrum = isinstance(getattr(model, "singular_values_", None), np.ndarray)
        assert ("svg" in page.tags) == has_spectrum


def _refused(*args, **kwargs):
    raise AssertionError("a representation must read nothing")


def test_names_that_are_code_are_shown_as_text():
    model = dspectral.LocalLSI(n_components=2)
    X, y = CASES["LocalLSI"].data()
    model.fit(X, np.where(y == "even", HOSTILE, "odd"))
    for html in (
        render_fitted_card(model),
        card(HOSTILE, [(HOSTILE, HOSTILE)]),
        spectrum_picture([1.0], what=HOSTILE),
    ):
        page = Page(html)
        assert "<script>alert('x')" in page.text
        assert "script" not in page.tags
    assert "script" not in Page(dspectral.TextFiles(f"memory://{HOSTILE}")._repr_html_()).tags
