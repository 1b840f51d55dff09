"""Counts of documents by period, and the changes of ratios that are more than noise."""

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.stats
from scipy import sparse

from dspectral.engine.summary import add_fields
from dspectral.methods.topics.rotation import TopicMixture
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, Doubles, Int32s, Int64s, IntArray

N_PARTS = 20
"""Parts of the documents of a period; their differences are the noise that a change must exceed."""


class PeriodCounts(NamedTuple):
    """Counts of documents in cells: parts of periods.

    Shapes: `documents` (n_cells, k): documents of each topic; `words` (n_cells, k m), sparse: documents of each topic
    with each of its m words; `n_documents` (n_cells,).
    """

    documents: Doubles
    words: CSRRows
    n_documents: Int64s

    @classmethod
    def from_block(
        cls,
        rows: CSRRows,
        cells: Int64s,
        *,
        weighting: Weighting,
        mixture: TopicMixture,
        slots: Int32s,
        n_cells: int,
        n_words: int,
    ) -> Self:
        """Summarize one block of counts. Shapes: `cells` (n, 1), -1 for none; `slots` (k, d), -1 for other words."""
        weighted = weighting.apply(rows)
        weighted, cell = weighted[np.flatnonzero(cells[:, 0] >= 0)], cells[cells[:, 0] >= 0, 0]
        topics = mixture.predict(weighted)[:, 0]
        documents = np.zeros((n_cells, len(slots)))
        np.add.at(documents, (cell[topics >= 0], topics[topics >= 0]), 1.0)
        row = np.repeat(np.arange(len(cell)), np.diff(weighted.indptr))
        slot = slots[topics[row], weighted.indices]
        kept = slot >= 0
        entries = (np.ones(int(kept.sum())), (cell[row[kept]], slot[kept]))
        words = sparse.csr_array(entries, shape=(n_cells, n_words))
        return cls(documents, words, np.bincount(cell, minlength=n_cells))

    def merge(self, *others: Self) -> Self:
        """Return the counts of all rows."""
        return add_fields(self, *others)


def assign_parts(codes: IntArray, n_periods: int) -> Int64s:
    """Return the part of its period for each document, -1 for none: runs of neighbors of equal length, shape (n,)."""
    sizes = np.bincount(codes[codes >= 0], minlength=n_periods)
    order = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]
    period = codes[order]
    rank = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[period]
    cells = np.full(len(codes), -1, dtype=np.int64)
    cells[order] = period.astype(np.int64) * N_PARTS + rank * N_PARTS // sizes[period]
    return cells


class RatioSeries(NamedTuple):
    """Ratios of counts over periods, with the noise between the parts of a period.

    Shapes: `counts` and `sizes` (s, T, N_PARTS), for s series; `sizes` are whole numbers.
    """

    counts: Doubles
    sizes: Doubles

    def ratios(self) -> Doubles:
        """Return the ratio of each period (s, T), nan without documents."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.counts.sum(axis=2) / self.sizes.sum(axis=2))

    def squared_errors(self) -> tuple[Doubles, Doubles]:
        """Return the variance of the counts of each period, and its degrees of freedom, both (s, T).

        With n parts this is the jackknife that leaves out one part, to first order: n / (n - 1) times the sum of the
        squares of ``counts - ratio * sizes``.
        """
        n_parts = np.count_nonzero(self.sizes, axis=2)
        errors = self.counts - np.nan_to_num(self.ratios())[..., None] * self.sizes
        return np.square(errors).sum(axis=2) * n_parts / np.maximum(n_parts - 1, 1), np.maximum(n_parts - 1.0, 0.0)

    def intervals(self) -> Doubles:
        """Return Wilson's interval of 95 % of each ratio (s, T, 2), of as many documents as have the same error."""
        ratio, n = np.nan_to_num(self.ratios()), np.maximum(self.sizes.sum(axis=2), 1)
        variance, freedom = self.squared_errors()
        independent = n * ratio * (1 - ratio)
        n_effective = n / np.maximum(np.divide(variance, independent, out=np.ones_like(n), where=independent > 0), 1.0)
        t = scipy.stats.t.ppf(0.975, np.maximum(freedom, 1.0))
        center = ratio + t**2 / (2 * n_effective)
        width = t * np.sqrt(ratio * (1 - ratio) / n_effective + np.square(t / (2 * n_effective)))
        scale = 1 + t**2 / n_effective
        bounds = np.stack(
            [np.minimum((center - width) / scale, ratio), np.maximum((center + width) / scale, ratio)], axis=-1
        )
        return np.where(self.sizes.sum(axis=2)[..., None] > 0, np.clip(bounds, 0.0, 1.0), np.nan)

    def p_values(self) -> Doubles:
        """Return the probability of a difference as large between all periods before and after each one (s, T - 1).

        It is the larger one of two: of Welch's t by the errors of :meth:`squared_errors`, which sees that documents of
        a part depend on each other; and of an exact binomial split of the counts, which holds for few documents.
        """
        variance, freedom = self.squared_errors()
        count, size = self.counts.sum(axis=2), self.sizes.sum(axis=2)
        sides = []
        for flip in (slice(None), slice(None, None, -1)):
            c, n, v = (np.cumsum(values[:, flip], axis=1)[:, :-1][:, flip] for values in (count, size, variance))
            w = np.cumsum(
                np.divide(variance**2, freedom, out=np.zeros_like(variance), where=freedom > 0)[:, flip], axis=1
            )
            sides.append((c, np.maximum(n, 1.0), v, w[:, :-1][:, flip], n > 0))
        (c, n, v, w, any_before), (d, m, u, x, any_after) = sides
        squared = v / n**2 + u / m**2
        spread = w / n**4 + x / m**4
        dof = np.divide(squared**2, spread, out=np.full_like(spread, N_PARTS - 1.0), where=spread > 0)
        difference = np.abs(c / n - d / m)
        t = np.divide(difference, np.sqrt(squared), out=np.full_like(difference, np.inf), where=squared > 0)
        p = 2 * scipy.stats.t.sf(t, dof)
        first, total, share = np.rint(c), np.rint(c) + np.rint(d), n / (n + m)
        low = scipy.stats.binom.cdf(first, total, share)
        high = scipy.stats.binom.sf(first - 1, total, share)
        p = np.maximum(p, np.minimum(2 * np.minimum(low, high), 1.0))
        return np.where(any_before & any_after & (difference > 0), p, 1.0)

    def find_changes(self, false_alarms: float) -> list[tuple[int, tuple[int, float, float]]]:
        """Return the changes as (series, (first period after it, ratio before, ratio after)).

        Each series is cut where its two sides differ most, if that is significant among all s (T - 1) places; then both
        sides are cut in the same way, and cuts that are not significant between their neighbors are removed. Without a
        change none is reported but with the probability ``false_alarms``.
        """
        n_series, n_periods, _ = self.counts.shape
        level = false_alarms / (n_series * (n_periods - 1))
        pending, cuts = [(np.arange(n_series), 0, n_periods)], dict[int, list[int]]()
        while pending:
            series, start, stop = pending.pop()
            for one, p in zip(series.tolist(), self.select(series, start, stop).p_values(), strict=True):
                if p.min() <= level:
                    cut = start + 1 + int(p.argmin())
                    cuts.setdefault(one, []).append(cut)
                    parts = [(start, cut), (cut, stop)]
                    pending += [(np.array([one]), low, high) for low, high in parts if high - low > 1]
        changes = []
        for one, places in sorted(cuts.items()):
            edges, worst = [0, *sorted(places), n_periods], np.inf
            while len(edges) > 2 and worst > level:
                triples = zip(edges, edges[1:], edges[2:], strict=False)
                p = np.array([self.select([one], low, high).p_values()[0, cut - low - 1] for low, cut, high in triples])
                worst = p.max()
                if worst > level:
                    del edges[1 + int(p.argmax())]
            count, size = (np.add.reduceat(values[one].sum(axis=1), edges[:-1]) for values in self)
            ratio = (count / np.maximum(size, 1.0)).tolist()
            changes += [(one, change) for change in zip(edges[1:-1], ratio[:-1], ratio[1:], strict=True)]
        return changes

    def select(self, series: Any, start: int, stop: int) -> "RatioSeries":
        """Return some series in the periods from ``start`` to before ``stop``."""
        return RatioSeries(self.counts[series, start:stop], self.sizes[series, start:stop])
