"""Counts of documents by period, and the changes of ratios that are more than noise."""

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.special
from scipy import sparse

from dspectral.engine.summary import add_fields
from dspectral.methods.topics.rotation import TopicMixture
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, Doubles, Int32s, Int64s, IntArray

N_PARTS = 20
"""Parts of the documents of a period; their differences are the noise that a change must exceed."""
Z = 1.96
"""Quantile of the normal distribution for intervals of 95 %."""


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
    """Ratios ``counts / sizes`` over periods, with the variances of the counts. Shapes: all (s, T), for s series."""

    counts: Doubles
    sizes: Doubles
    variances: Doubles

    @classmethod
    def from_parts(cls, counts: Doubles, sizes: Doubles) -> Self:
        """Return the series of the parts of periods. Shapes: `counts` and `sizes` (s, T, N_PARTS), whole numbers.

        With n parts the variance is that of the jackknife that leaves out one part, to first order: n / (n - 1) times
        the sum of the squares of ``counts - ratio * sizes``.
        """
        count, size, n_parts = counts.sum(axis=2), sizes.sum(axis=2), np.count_nonzero(sizes, axis=2)
        errors = counts - (count / np.maximum(size, 1.0))[..., None] * sizes
        return cls(count, size, np.square(errors).sum(axis=2) * n_parts / np.maximum(n_parts - 1.0, 1.0))

    def ratios(self) -> Doubles:
        """Return the ratio of each period (s, T), nan without documents."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.counts / self.sizes)

    def independent_variances(self) -> Doubles:
        """Return the variances of the counts (s, T) if documents were independent."""
        return np.asarray(self.counts * (1 - self.counts / np.maximum(self.sizes, 1.0)))

    def intervals(self) -> Doubles:
        """Return Wilson's interval of 95 % of each ratio (s, T, 2), of as many documents as have the same error."""
        ratio, expected = np.nan_to_num(self.ratios()), self.independent_variances()
        total = divide_variances(self.variances.sum(axis=1), expected.sum(axis=1))[:, None]
        n = np.maximum(self.sizes, 1.0) / np.maximum(divide_variances(self.variances, expected), total)
        center = ratio + Z**2 / (2 * n)
        width = Z * np.sqrt(ratio * (1 - ratio) / n + np.square(Z / (2 * n)))
        low, high = (np.clip((center + sign * width) / (1 + Z**2 / n), 0.0, 1.0) for sign in (-1, 1))
        bounds = np.stack([np.minimum(low, ratio), np.maximum(high, ratio)], axis=-1)
        return np.where(self.sizes[..., None] > 0, bounds, np.nan)

    def p_values(self) -> Doubles:
        """Return the probability of a difference as large between all periods before and after each one (s, T - 1).

        Counts are divided by how many times more they vary than those of independent documents, before or after. Then
        an exact binomial test tells whether the periods before have their share of all.
        """
        terms = np.stack([self.counts, self.sizes, self.variances, self.independent_variances()])
        before, after = np.cumsum(terms, axis=2)[..., :-1], np.cumsum(terms[..., ::-1], axis=2)[..., :-1][..., ::-1]
        excess = np.maximum(divide_variances(*before[2:]), divide_variances(*after[2:]))
        has_both = (before[1] > 0) & (after[1] > 0)
        share = np.divide(before[1], before[1] + after[1], out=np.zeros_like(excess), where=has_both)
        count, other = before[0] / excess, after[0] / excess
        # Tails of the binomial distribution for any real counts.
        at_most, at_least = np.ones_like(share), np.ones_like(share)
        scipy.special.betainc(other, count + 1, 1 - share, out=at_most, where=other > 0)
        scipy.special.betainc(count, other + 1, share, out=at_least, where=count > 0)
        return np.where(has_both, np.minimum(2 * np.minimum(at_most, at_least), 1.0), 1.0)

    def find_changes(self, false_alarms: float) -> list[tuple[int, tuple[int, float, float]]]:
        """Return the changes as (series, (first period after it, ratio before, ratio after)).

        Each series is cut where its two sides differ most, if that is significant among all s (T - 1) places; then both
        sides are cut in the same way, and cuts that are not significant between their neighbors are removed. Without a
        change none is reported but with the probability ``false_alarms``; else about this share of them is false.
        """
        n_series, n_periods = self.counts.shape
        # Benjamini and Hochberg: the largest p-value that is at most its rank times this share of the number of tests.
        smallest = np.sort(self.p_values(), axis=None)
        passes = np.flatnonzero(smallest <= false_alarms * np.arange(1, smallest.size + 1) / smallest.size)
        level = smallest[passes.max()] if passes.size else 0.0
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
            count, size = (np.add.reduceat(values[one], edges[:-1]) for values in (self.counts, self.sizes))
            ratio = (count / np.maximum(size, 1.0)).tolist()
            # Cuts before and after empty periods are alike.
            firsts = [cut + int(np.argmax(self.sizes[one, cut:] > 0)) for cut in edges[1:-1]]
            changes += [(one, change) for change in zip(firsts, ratio[:-1], ratio[1:], strict=True)]
        return changes

    def select(self, series: Any, start: int, stop: int) -> "RatioSeries":
        """Return some series in the periods from ``start`` to before ``stop``."""
        return RatioSeries(*(values[series, start:stop] for values in self))


def divide_variances(variances: Doubles, expected: Doubles) -> Doubles:
    """Return how many times larger variances are than those expected, at least 1."""
    ratio = np.divide(variances, expected, out=np.ones_like(expected), where=expected > 0)
    return np.maximum(ratio, 1.0)
