"""Topics over periods: shares with intervals, and changes that are more than noise."""

import re
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dspectral import engine
from dspectral.inputs.groups import MAX_PERIODS, group_values
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.topics.period_counts import N_PARTS, PeriodCounts, RatioSeries, assign_parts
from dspectral.methods.topics.rotation import TopicMixture
from dspectral.store.columns import to_csr_counts
from dspectral.types import Doubles, Int32s, Int64s, Rows, is_missing

FALSE_ALARMS = 0.01
"""Maximum probability that text without changes has any reported change; half for shares, half for words."""
BEGINNING = 0.1
"""A topic begins or ends where its share is below this multiple of its share on the other side."""
MIN_SIMILARITY = 0.2
"""Minimum cosine of the words of topics of which one splits from the other, or merges into it."""


DAY_FIRST = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}")
"""Dates whose texts do not sort by time."""


class TopicChange(NamedTuple):
    """A change of a topic between two periods.

    Attributes
    ----------
    topic : int
        Number of the topic.
    period : str
        First period after the change.
    kind : {"birth", "death", "rise", "fall", "split", "merge", "word gained", "word lost"}
        A split is the birth of a topic where the one with the most similar words falls; a merge is the opposite.
    before, after : float
        Share of documents on both sides, up to the previous and the next change: of all for a topic, of those of the
        topic for a word.
    word : str or None
        Word whose share changes.
    other : int or None
        Topic that a split comes from, or that a merge goes into.
    """

    topic: int
    period: str
    kind: str
    before: float
    after: float
    word: str | None = None
    other: int | None = None


class FollowedTopics(NamedTuple):
    """Topics over T periods, as :meth:`Topics.follow` returns them.

    Attributes
    ----------
    periods : list of str, shape (T,)
        Names of the periods, in order.
    n_documents : ndarray of int64, shape (T,)
        Numbers of documents.
    shares : ndarray of float64, shape (k, T)
        Share of the documents of a period that :meth:`Topics.predict` assigns to a topic; nan without documents.
    intervals : ndarray of float64, shape (k, T, 2)
        Interval of 95 % of each share.
    changes : list of TopicChange
        Changes by topic and period.
    labels : list of str, shape (k,)
        Three words of each topic, or its number.
    """

    periods: list[str]
    n_documents: Int64s
    shares: Doubles
    intervals: Doubles
    changes: list[TopicChange]
    labels: list[str]

    def to_frame(self) -> Any:
        """Return one row per topic and period.

        Returns
        -------
        pandas.DataFrame
            Columns ``topic``, ``label``, ``period``, ``share``, ``low`` and ``high``.
        """
        n_topics, n_periods = self.shares.shape
        columns = {
            "topic": np.repeat(np.arange(n_topics), n_periods),
            "label": np.repeat(np.array(self.labels, dtype=object), n_periods),
            "period": self.periods * n_topics,
            "share": self.shares.ravel(),
            "low": self.intervals[..., 0].ravel(),
            "high": self.intervals[..., 1].ravel(),
        }
        return import_module("pandas").DataFrame(columns)

    def changes_to_frame(self) -> Any:
        """Return one row per change.

        Returns
        -------
        pandas.DataFrame
            The fields of :class:`TopicChange`, and ``label``.
        """
        frame = import_module("pandas").DataFrame(self.changes, columns=TopicChange._fields)
        frame.insert(1, "label", [self.labels[topic] for topic in frame["topic"]])
        return frame


def follow_topics(model: Any, counts: Any, by: Any, n_words: int) -> FollowedTopics:
    """Return the topics of a fitted model over periods; see :meth:`Topics.follow`."""
    periods, codes = find_periods(by, counts.shape[0])
    n_periods, (k, d) = len(periods), model.components_.shape
    slots = np.full((k, d), -1, dtype=np.int32)
    n_words = min(n_words, d)
    # The words of the most documents have the power to show a change.
    largest = np.argsort(-model.group_words_, axis=1, kind="stable")[:, :n_words]
    np.put_along_axis(slots, largest, np.arange(k * n_words, dtype=np.int32).reshape(k, n_words), axis=1)
    summarize_block = partial(
        _count_block,
        weighting=model.weighting,
        mixture=TopicMixture(model.group_words_, model.group_sizes_),
        slots=slots,
        n_cells=n_periods * N_PARTS,
        n_words=k * n_words,
    )
    cells = assign_parts(codes, n_periods)[:, None]
    sums = engine.summarize(counts, cells, summarize_block=summarize_block, name="follow")
    shape = (n_periods, N_PARTS)
    n_documents = sums.n_documents.reshape(shape)
    documents = np.moveaxis(sums.documents.reshape(*shape, k), -1, 0)
    shares = RatioSeries.from_parts(documents, np.broadcast_to(n_documents.astype(np.float64), documents.shape))
    of_words = []
    for topic in range(k):  # all topics at once would be dense in all cells
        counts = sums.words[:, topic * n_words : (topic + 1) * n_words].toarray().reshape(*shape, n_words)
        counts = np.moveaxis(counts, -1, 0)
        of_words.append(RatioSeries.from_parts(counts, np.broadcast_to(documents[topic], counts.shape)))
    words = RatioSeries(*map(np.concatenate, zip(*of_words, strict=True)))
    labels = [f"topic {topic}" for topic in range(k)]
    if model.words_ is not None:
        labels = [" ".join(top) for top in model.top_words(3)]
    changes = name_changes(
        shares.find_changes(FALSE_ALARMS / 2), np.asarray(normalize_rows(model.components_)), periods
    )
    for series, (period, before, after) in words.find_changes(FALSE_ALARMS / 2):
        topic, number = divmod(series, n_words)
        column = int(largest[topic, number])
        word = str(model.columns_[column]) if model.words_ is None else model.words_[column]
        kind = "word gained" if after > before else "word lost"
        changes.append(TopicChange(topic, periods[period], kind, before, after, word))
    return FollowedTopics(
        periods,
        n_documents.sum(axis=1),
        shares.ratios(),
        shares.intervals(),
        sorted(
            changes, key=lambda change: (change.topic, periods.index(change.period), -abs(change.after - change.before))
        ),
        labels,
    )


def _count_block(rows: Rows, cells: Int64s, **settings: Any) -> PeriodCounts:
    return PeriodCounts.from_block(to_csr_counts(rows), cells, **settings)


def find_periods(by: Any, n_rows: int) -> tuple[list[str], Int32s]:
    """Return the names of periods in order, and the period of each document, -1 for a missing value.

    >>> find_periods(["2026-01-31", "", "2026-03-02"], 3)[1]
    array([ 0, -1, 30], dtype=int32)
    >>> find_periods([2, 10, 9], 3)
    (['2', '9', '10'], array([0, 2, 1], dtype=int32))
    """
    if isinstance(by, str):
        raise TypeError(f"by={by!r:.60} must be one value for each document, such as frame[{by!r:.60}]")
    values = np.asarray(by)
    if values.shape != (n_rows,):
        raise ValueError(f"by has shape {values.shape}, but must have one value for each of the {n_rows} documents")
    # Numbers become floats where some are missing.
    present = ("" if is_missing(value) else int(value) if is_whole(value) else value for value in values)
    texts = np.array([str(value) for value in present], dtype=object)
    distinct, inverse, counts = np.unique(texts, return_inverse=True, return_counts=True)
    filled = [value for value in distinct.tolist() if value.strip()]
    names, codes = filled, None
    with suppress(ValueError):  # other values than dates
        names, is_time, groups = group_values(distinct.tolist(), counts, "by")
        codes = groups[inverse] if is_time else None
    if codes is None:
        if day_first := next(filter(DAY_FIRST.match, filled), None):
            raise ValueError(f"by has dates such as {day_first!r}, but must have 2026-11-27: use pandas.to_datetime")
        with suppress(ValueError):
            filled.sort(key=float)
        names, numbers = filled, {value: number for number, value in enumerate(filled)}
        codes = np.array([numbers.get(value, -1) for value in distinct.tolist()], dtype=np.int32)[inverse]
    n_filled = len(np.unique(codes[codes >= 0]))
    if n_filled < 2 or len(names) > MAX_PERIODS:
        raise ValueError(
            f"by has {n_filled} different periods, but must have 2 to {MAX_PERIODS}: pass dates such as 2026-11-27, or "
            "fewer different values"
        )
    return names, codes


def is_whole(value: object) -> bool:
    """Report whether a value is a float without a fraction."""
    return isinstance(value, float | np.floating) and float(value).is_integer()


def name_changes(
    found: list[tuple[int, tuple[int, float, float]]], directions: Doubles, periods: list[str]
) -> list[TopicChange]:
    """Return changes of shares with their kinds. Shapes: `directions` (k, d), of unit length."""
    similarities = directions @ directions.T - 2 * np.eye(len(directions))
    signs = {(topic, period): after > before for topic, (period, before, after) in found}
    changes = []
    for topic, (period, before, after) in found:
        is_rise, other = after > before, None
        kind = "rise" if is_rise else "fall"
        if min(before, after) < BEGINNING * max(before, after):
            kind = "birth" if is_rise else "death"
            nearest = int(similarities[topic].argmax())
            is_similar = similarities[topic, nearest] >= MIN_SIMILARITY
            if is_similar and any(signs.get((nearest, period + step)) == (not is_rise) for step in (-1, 0, 1)):
                kind, other = ("split" if is_rise else "merge"), nearest
        changes.append(TopicChange(topic, periods[period], kind, before, after, None, other))
    return changes
