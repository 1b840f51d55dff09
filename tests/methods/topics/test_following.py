"""Topics over periods: planted births, deaths and drift are found, noise is not, in any container and cut."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from dspectral import Topics, plot_topic_shares
from dspectral.methods.topics.following import find_periods
from dspectral.methods.topics.period_counts import RatioSeries

K, OF_TOPIC, COMMON, T = 5, 16, 10, 8


def draw(seed=0, n=1600, changes=True):
    """Counts, topics and periods: topic 0 begins in period 5, topic 1 ends there, and words of topic 2 change."""
    rng = np.random.default_rng(seed)
    period = np.sort(rng.integers(T, size=n))
    weights = np.full((T, K), 1.0)
    if changes:
        weights[:5, 0] = weights[5:, 1] = 0.0
    topic = (rng.random(n)[:, None] > np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[period]).sum(
        axis=1
    )
    words = np.zeros((K, T, K * OF_TOPIC + COMMON))
    for number in range(K):
        words[number, :, number * OF_TOPIC : (number + 1) * OF_TOPIC] = 0.7 / OF_TOPIC
    if changes:
        words[2, :4, 2 * OF_TOPIC : 2 * OF_TOPIC + 4] = words[2, 4:, 2 * OF_TOPIC + 4 : 2 * OF_TOPIC + 8] = 0.0
    words[..., -COMMON:] = 0.3 / COMMON
    words /= words.sum(axis=2, keepdims=True)
    return rng.multinomial(25, words[topic, period]).astype(float), topic, period


def fit(counts):
    return Topics(K, max_df=0.5).fit(counts)


def match(model, counts, topic):
    """The number of each planted topic in a model."""
    return [int(np.bincount(model.predict(counts)[topic == number], minlength=K).argmax()) for number in range(K)]


def test_planted_births_deaths_and_new_words_are_the_only_changes():
    counts, topic, period = draw()
    model = fit(counts)
    numbers, followed = match(model, counts, topic), model.follow(counts, period)
    of_topics = {(change.topic, change.period, change.kind) for change in followed.changes if change.word is None}
    assert of_topics == {(numbers[0], "5", "birth"), (numbers[1], "5", "death")}
    of_words = {
        (change.topic, change.period, change.kind, int(change.word)) for change in followed.changes if change.word
    }
    first = 2 * OF_TOPIC
    assert of_words == {
        (numbers[2], "4", kind, first + start + i)
        for kind, start in (("word gained", 0), ("word lost", 4))
        for i in range(4)
    }
    np.testing.assert_allclose(followed.shares[numbers[0], 5:], 0.25, atol=0.1)
    low, high = followed.intervals[..., 0], followed.intervals[..., 1]
    true = np.stack([np.bincount(period[topic == number], minlength=T) for number in range(K)]) / np.bincount(period)
    assert np.all((low[numbers] <= true) & (true <= high[numbers]))
    frame = followed.to_frame()
    assert frame.shape == (K * T, 6)
    np.testing.assert_array_equal(frame["share"], followed.shares.ravel())
    assert len(followed.changes_to_frame()) == len(followed.changes)
    assert sum(": birth 5" in ax.get_title() for ax in plot_topic_shares(followed).axes) == 1


def test_text_without_changes_has_no_change():
    for seed in range(8):
        counts, _, period = draw(seed, changes=False)
        assert fit(counts).follow(counts, period).changes == []


def test_documents_that_repeat_each_other_are_no_change():
    counts, _, period = draw(changes=False)
    last = np.flatnonzero(period == T - 1)[20]
    counts, period = (np.insert(values, np.repeat(last, 30), values[last], axis=0) for values in (counts, period))
    assert fit(counts).follow(counts, period).changes == []


def test_few_documents_are_no_change():
    sizes = np.full((1, 3, 20), 10.0)
    counts = np.full_like(sizes, 3.0)
    sizes[0, 2] = counts[0, 2] = np.arange(20) < 2  # both of two documents: without noise
    p = RatioSeries.from_parts(counts, sizes).p_values()[0, -1]
    assert p == pytest.approx(2 * binom.cdf(120, 122, 400 / 402))


@pytest.mark.parametrize("chunks", [160, 1000, (7, 1593)])
def test_periods_are_the_same_in_any_container(chunks):
    counts, _, period = draw()
    model = fit(counts)
    order = np.random.default_rng(0).permutation(len(counts))
    expected = model.follow(counts[order], period[order])
    actual = model.follow(da.from_array(counts[order], chunks=(chunks, -1)), period[order])
    assert actual.changes == expected.changes
    np.testing.assert_array_equal(actual.shares, expected.shares)


def test_errors_are_those_of_the_jackknife_that_leaves_out_one_part():
    rng = np.random.default_rng(0)
    sizes = np.full((1, 2, 20), 10.0)
    counts = rng.binomial(10, 0.3, sizes.shape).astype(float)
    series = RatioSeries.from_parts(counts, sizes)
    left_out = (counts.sum(axis=2, keepdims=True) - counts) / (sizes.sum(axis=2, keepdims=True) - sizes)
    expected = 19 / 20 * np.square(left_out - left_out.mean(axis=2, keepdims=True)).sum(axis=2)
    np.testing.assert_allclose(series.variances / 200.0**2, expected)


@pytest.mark.parametrize(
    "by",
    [
        ["2026-01-05", None, "2026-03-02", "2026-01-09"],
        pd.Series(pd.to_datetime(["2026-01-05", None, "2026-03-02", "2026-01-09"])),
        np.array(["2026-01-05", "NaT", "2026-03-02", "2026-01-09"], dtype="datetime64[s]"),
    ],
    ids=["texts", "pandas", "numpy"],
)
def test_dates_become_days_in_order(by):
    names, codes = find_periods(by, 4)
    assert (names[0], names[4], len(names)) == ("2026-01-05", "2026-01-09", 57)
    np.testing.assert_array_equal(codes, [0, -1, 56, 4])


def test_whole_numbers_with_missing_ones_are_years():
    names, codes = find_periods([2024.0, float("nan"), 2026.0], 3)
    assert names == ["2024", "2025", "2026"]
    np.testing.assert_array_equal(codes, [0, -1, 2])


def test_change_is_dated_by_the_first_period_that_has_documents():
    counts, topic, period = draw()
    model = fit(counts)
    gap = np.where(period < 5, period, period + 3)
    dates = [f"2026-{1 + month:02d}" for month in gap]
    born = match(model, counts, topic)[0]
    changes = [change for change in model.follow(counts, dates).changes if (change.topic, change.word) == (born, None)]
    assert [(change.period, change.kind) for change in changes] == [("2026-09", "birth")]


@pytest.mark.parametrize(
    ("by", "error", "value"),
    [
        ("month", TypeError, "'month'"),
        ([1] * 1599, ValueError, "1599"),
        ([1] * 1600, ValueError, "by has 1 different"),
        (range(1600), ValueError, "by has 1600 different"),
        ([float("nan")] * 1600, ValueError, "by has 0 different"),
        (["27.11.2026", "03.12.2026"] * 800, ValueError, "03.12.2026"),
    ],
    ids=["name", "length", "one period", "periods", "missing", "day first"],
)
def test_periods_that_cannot_be_followed_are_refused(by, error, value):
    counts, _, _ = draw()
    with pytest.raises(error, match=value):
        fit(counts).follow(counts, by)
