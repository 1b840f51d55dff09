import numpy as np
import pytest

from dspectral import RefinementHMM, RefinementRecipe, VectorQuantizer
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.methods.hmm.inference import compute_posteriors
from dspectral.types import Sentences
from workflows._parts.drawn_sequences import refinement_sequences

BY_OPERATORS = RefinementRecipe(decoding="operators")


def lists(stream):
    """A stream's tokens and labels as lists of lists."""
    tokens, tags = [], []
    for item in stream.sentences.items:
        block = stream.sentences.read(item)
        tokens += [part.tolist() for part in np.split(block.ids, block.offsets[1:-1])]
        tags += [part.tolist() for part in np.split(block.labels, block.offsets[1:-1])]
    return tokens, tags


@pytest.fixture(scope="module")
def data():
    return lists(refinement_sequences(300, seed=1))


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_one_refinement_is_the_supervised_model_exactly(data, smoothing):
    model = RefinementHMM(1, smoothing=smoothing).fit(*data)
    n_types, n = len(model.words_), len(model.labels_)
    initial, final, steps, emission = np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros((n_types, n))
    for tokens, tags in zip(*data, strict=True):
        labels = np.array([model.labels_.index(tag) for tag in tags])
        initial[labels[0]] += 1
        final[labels[-1]] += 1
        np.add.at(steps, (labels[:-1], labels[1:]), 1)
        np.add.at(emission, ([model.words_.index(token) for token in tokens], labels), 1)
    n_tokens = emission.sum(axis=0)
    expected = (
        initial / len(data[0]),
        steps / n_tokens[:, None],
        (emission + smoothing) / (n_tokens + smoothing * n_types),
        final / n_tokens,
    )
    for actual, counted in zip(model.model_, expected, strict=True):
        np.testing.assert_allclose(actual, counted, rtol=1e-12)
    by_operators = RefinementHMM(1, smoothing=smoothing, recipe=BY_OPERATORS).fit(*data)
    if not smoothing:
        texts = [
            *data[0],
            [token for tokens in data[0] for token in tokens],
        ]  # the last underflows but for its scales
        for one, other in zip(model.predict_proba(texts), by_operators.predict_proba(texts), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)


def error(stream, held_out, **options):
    """Mean distance of the label shares of held-out tokens from those under the true model."""
    model = RefinementHMM(2, n_em_iter=0, smoothing=0.0, **options).fit(stream)
    true = compute_posteriors(held_out, HiddenMarkov(*stream.model)).posterior
    true = np.add.reduceat(true, stream.bounds[:-1], axis=1)
    return float(np.abs(model.label_shares(held_out) - true).mean())


@pytest.mark.slow
@pytest.mark.parametrize("decoding", ["parameters", "operators"])
def test_the_error_falls_as_one_over_the_root_of_the_data(decoding):
    sizes = np.array([2000, 8000, 32000])
    options = {"recipe": RefinementRecipe(run_memory=(), memory=(0.3,), decoding=decoding)}
    rng = np.random.default_rng(0)
    held_out = Sentences.from_ids([rng.integers(1, 13, size=10).tolist() for _ in range(200)])
    errors = [
        [error(refinement_sequences(int(n), mean_length=8.0, seed=s), held_out, **options) for n in sizes]
        for s in (1, 2, 3)
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors).mean(axis=0), 1)[0]
    assert -0.75 < slope < -0.35


def test_sequences_of_length_one_and_unseen_tokens_are_decoded(data):
    model = RefinementHMM(2).fit(*data)
    (share,) = model.predict_proba([["never seen"]])
    prior = np.add.reduceat(model.model_.initial * model.model_.final, model.bounds_[:-1])
    unseen = np.add.reduceat(model.model_.initial * model.model_.final * model.model_.emission[0], model.bounds_[:-1])
    np.testing.assert_allclose(share[0], unseen / unseen.sum())
    assert share.shape == (1, len(prior))
    assert model.predict([]) == []
    short = RefinementHMM(3).fit([["a"], ["b"]] * 3, [["K"], ["V"]] * 3)
    assert short.predict([["a"], ["b"]]) == [["K"], ["V"]]
    assert short.n_refinements_.tolist() == [1, 1]


def test_label_has_at_most_as_many_refinements_as_types():
    rng = np.random.default_rng(0)
    X = [rng.integers(2, size=9).tolist() for _ in range(50)]
    model = RefinementHMM(4, n_em_iter=1).fit(X, [["a"] * 9 for _ in X])
    assert model.n_refinements_.tolist() == [2]
    assert np.isfinite(model.log_likelihoods_[0])


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({}, [["a", "b"]], [["K"]], "sequence 0.*1 labels.*2"),
        ({}, [np.zeros((3, 2))], [["a"] * 3], "sequence 0.*VectorQuantizer"),
        ({"recipe": RefinementRecipe((), ())}, [["a"]], [["K"]], "decay"),
        ({"recipe": BY_OPERATORS, "n_em_iter": 1}, [["a"]], [["K"]], "n_em_iter=0"),
    ],
)
def test_what_cannot_be_is_named(options, X, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RefinementHMM(**options).fit(X, y)


def test_a_quantizer_gives_the_nearest_centre():
    rng = np.random.default_rng(0)
    frames = [rng.standard_normal((n, 3)) * [1, 10, 100] for n in (50, 1, 70)]
    quantizer = VectorQuantizer(8).fit(frames)
    codes = quantizer.transform(frames)
    assert [len(part) for part in codes] == [50, 1, 70]
    scaled = (frames[2] - quantizer.mean_) / quantizer.scale_
    apart = np.linalg.norm(scaled[:, None] - quantizer.centers_, axis=2)
    np.testing.assert_array_equal(codes[2], apart.argmin(axis=1))
