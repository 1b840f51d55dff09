"""What a notebook shows of stores, summaries and models."""

import fsspec
import numpy as np
import pytest

import dspectral
from dspectral.store import StoreError


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
    shown = repr(opened)
    assert type(opened).__name__ in shown
    assert f"{getattr(opened, 'n_tokens', None) or opened.nnz:,}" in shown
    assert "@nowhere/x" in shown
    assert "secret" not in shown
    assert len(shown) < 200
