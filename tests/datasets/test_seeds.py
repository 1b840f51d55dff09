"""Every generator of data takes a seed of any kind, and refuses what is none."""

import inspect

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import datasets
from dspectral.datasets.standard_library import LabelledDocuments

DOCUMENTS = LabelledDocuments([f"text number {i} here" for i in range(12)], list("aabbccaabbcc"), [])
DRAW = {
    "anchor_sentences": lambda seed: datasets.anchor_sentences(20, block_sentences=9, seed=seed),
    "brown_model_sentences": lambda seed: datasets.brown_model_sentences(5, seed=seed),
    "gaussian_rows": lambda seed: datasets.gaussian_rows(6, 3, block_rows=4, seed=seed),
    "labelled_counts": lambda seed: datasets.labelled_counts(
        20, 12, 6, 3, noise=0.0, block_rows=9, seed=seed
    ),
    "low_rank_axes": lambda seed: datasets.low_rank_axes(6, 2, seed=seed),
    "low_rank_counts": lambda seed: datasets.low_rank_counts(6, 8, 2, block_rows=4, seed=seed),
    "low_rank_rows": lambda seed: datasets.low_rank_rows(6, 5, 2, noise=0.0, block_rows=4, seed=seed),
    "refinement_sequences": lambda seed: datasets.refinement_sequences(20, block_sequences=9, seed=seed),
    "sample_labelled_documents": lambda seed: datasets.sample_labelled_documents(5, seed=seed),
    "standard_library_intents": lambda seed: datasets.standard_library_intents(
        3, documents=DOCUMENTS, seed=seed
    ),
    "state_parameters": lambda seed: datasets.state_parameters(9, 5, 2, seed=seed),
}


def numbers(value):
    """All that was drawn, as one list."""
    if isinstance(value, da.Array):
        return numbers(value.compute())
    if sparse.issparse(value):
        return value.toarray().tolist()
    if hasattr(value, "read"):
        return [numbers(value.read(item)) for item in value.items]
    if isinstance(value, tuple | list):
        return [numbers(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_every_function_with_a_seed_is_tested():
    seeded = {
        name
        for name in datasets.__all__
        if inspect.isfunction(getattr(datasets, name))
        and "seed" in inspect.signature(getattr(datasets, name)).parameters
    }
    assert seeded == DRAW.keys()


@pytest.mark.parametrize("name", DRAW)
def test_a_seed_is_of_any_kind_and_drawn_once(name):
    draw = DRAW[name]
    assert numbers(draw(np.int64(3))) == numbers(draw(3))
    for kind in (np.random.RandomState, np.random.default_rng):
        assert numbers(draw(kind(3))) == numbers(draw(kind(3)))
        generator = kind(3)
        assert numbers(draw(generator)) != numbers(draw(generator)) or name == "standard_library_intents"
    assert len(numbers(draw(None))) == len(numbers(draw(3)))
    with pytest.raises(ValueError, match="seed is -1, but it must be"):
        draw(-1)
    with pytest.raises(TypeError, match="'now', but it must be"):
        draw("now")


def test_parts_that_belong_together_are_of_one_draw():
    words, labels = DRAW["labelled_counts"](np.random.default_rng(0))
    states = [part.compute().argmax(axis=1) % 3 for part in (words, labels)]
    np.testing.assert_array_equal(*states)
    rows = DRAW["low_rank_rows"](np.random.RandomState(5)).compute()
    axes = datasets.low_rank_axes(5, 2, seed=np.random.RandomState(5))
    np.testing.assert_allclose(rows @ axes.T @ axes, rows, atol=1e-12)


def test_each_block_of_one_seed_is_drawn_by_itself():
    rows = datasets.gaussian_rows(8, 3, block_rows=4, seed=0).compute()
    assert len(np.unique(rows)) == rows.size
