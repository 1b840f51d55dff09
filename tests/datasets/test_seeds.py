"""Generators of data: seeds of any kind, the same bits under every scheduler, and rows of the law that they state."""

import inspect

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import datasets
from dspectral.datasets import labeled_counts, low_rank_counts, sample_labeled_documents, state_parameters
from dspectral.datasets.standard_library import LabeledDocuments
from tests.schedulers import scheduled

DOCUMENTS = LabeledDocuments([f"text number {i} here" for i in range(12)], list("aabbccaabbcc"), [])
DRAW = {
    "labeled_counts": lambda seed: datasets.labeled_counts(20, 12, 6, 3, noise=0.0, block_rows=9, seed=seed),
    "low_rank_counts": lambda seed: datasets.low_rank_counts(6, 8, 2, block_rows=4, seed=seed),
    "sample_labeled_documents": lambda seed: datasets.sample_labeled_documents(5, seed=seed),
    "standard_library_intents": lambda seed: datasets.standard_library_intents(3, documents=DOCUMENTS, seed=seed),
    "state_parameters": lambda seed: datasets.state_parameters(9, 5, 2, seed=seed),
}


def numbers(value):
    """All that was drawn, as one list."""
    if isinstance(value, da.Array):
        return numbers(value.compute())
    if sparse.issparse(value):
        return value.toarray().tolist()
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
    with pytest.raises(ValueError, match=r"seed.*-1"):
        draw(-1)
    with pytest.raises(TypeError, match="'now'"):
        draw("now")


def test_parts_that_belong_together_are_of_one_draw():
    words, labels = DRAW["labeled_counts"](np.random.default_rng(0))
    states = [part.compute().argmax(axis=1) % 3 for part in (words, labels)]
    np.testing.assert_array_equal(*states)


def test_each_block_of_one_seed_is_drawn_by_itself():
    first, second = (block.compute() for block in low_rank_counts(60, 40, 3, block_rows=30, seed=0).blocks)
    assert (first != second).nnz


def small(**changes):
    settings = {"row_length": 30, "block_rows": 400, "seed": 5} | changes
    return low_rank_counts(1000, 300, 6, **settings)


def test_blocks_are_counts_in_canonical_csr():
    X = small()
    assert X.chunks == ((400, 400, 200), (300,))
    for block in X.blocks:
        rows = block.compute()
        assert isinstance(rows, sparse.csr_array)
        assert (rows.dtype, rows.indices.dtype) == (np.float32, np.int32)
        assert rows.has_canonical_format
        assert rows.data.min() >= 1
        np.testing.assert_array_equal(rows.data, np.rint(rows.data))


@pytest.mark.parametrize("scheduler", ["sync", "threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_every_scheduler_draws_the_same_bits(scheduler):
    X = small()
    backwards = [X.blocks[i].compute(scheduler="sync") for i in reversed(range(3))]
    alone = sparse.vstack(backwards[::-1], format="csr")
    with scheduled(scheduler):
        together = X.compute()
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


def zipf(n, exponent):
    """Probabilities of ranks 0 to n - 1: the density ``x**-exponent`` integrated over unit intervals."""
    edges = np.arange(1.0, n + 2)
    cumulated = np.log(edges) if exponent == 1 else (edges ** (1 - exponent) - 1) / (1 - exponent)
    return np.diff(cumulated) / cumulated[-1]


@pytest.mark.parametrize(("exponent", "noise"), [(0.0, 0.4), (1.0, 0.0), (1.3, 1.0)])
def test_columns_are_as_frequent_as_the_true_parameters_say(exponent, noise):
    X = low_rank_counts(20_000, 40, 4, row_length=20, noise=noise, exponent=exponent, block_rows=5000, seed=1)
    popularity = np.arange(1.0, 5) ** -0.5
    topical = np.outer(zipf(10, exponent), popularity / popularity.sum()).ravel()  # column j + 4 i: word i of topic j
    expected = noise * zipf(40, exponent) + (1 - noise) * topical
    counts = X.compute().sum(axis=0)
    assert abs(expected.sum() - 1) < 1e-12
    # Three topics in a row make neighbouring words alike: at most 20 times a Poisson number's variance.
    assert np.all(np.abs(counts - counts.sum() * expected) <= 5 * np.sqrt(20 * counts.sum() * expected) + 5)


def test_words_and_labels_are_those_of_the_states():
    parameters = state_parameters(20, 8, 3, seed=1)
    words, labels, same = sample_labeled_documents(40_000, parameters=parameters, n_labels_each=0.8, seed=2)
    assert same is parameters
    expected = parameters.words @ parameters.weights
    np.testing.assert_allclose(words.sum(axis=0) / words.sum(), expected, atol=0.01)
    np.testing.assert_allclose(labels.sum(axis=0) / 40_000, 0.8 * parameters.labels @ parameters.weights, atol=0.01)
    assert set(labels.data) == {1.0}


def test_blocks_do_not_depend_on_each_other_and_share_their_states():
    words, labels = labeled_counts(900, 120, 40, 4, noise=0.0, block_rows=300, seed=3)
    again = labeled_counts(900, 120, 40, 4, noise=0.0, block_rows=300, seed=3)
    for actual, reference in zip((words, labels), again, strict=True):
        assert (actual.blocks[1].compute() != reference.compute()[300:600]).nnz == 0
    for block in range(3):  # without noise a document's words and labels are of its state alone
        rows = [part.blocks[block].compute() for part in (words, labels)]
        states = [np.maximum.reduceat(part.indices % 4, part.indptr[:-1]) for part in rows]
        np.testing.assert_array_equal(*states)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("low_rank_counts", (10, 300, 301), "n_components.*301"),
        ("low_rank_counts", (0, 300, 3), "n_rows.*0"),
        ("low_rank_counts", {"noise": 1.5}, "noise.*1.5"),
        ("low_rank_counts", {"block_rows": 0}, "block_rows.*0"),
        ("state_parameters", (3, 5, 4), "n_states.*4"),
        ("labeled_counts", (10, 8, 3, 4), "n_states.*4"),
        ("labeled_counts", {"labels_each": 0.5}, "labels_each.*0.5"),
    ],
)
def test_what_cannot_be_drawn_is_named(name, arguments, message):
    sizes = {"labeled_counts": (10, 8, 8, 4)}.get(name, (10, 60, 3))
    given = (arguments, {}) if isinstance(arguments, tuple) else (sizes, arguments)
    with pytest.raises(ValueError, match=message):
        getattr(datasets, name)(*given[0], **given[1])
