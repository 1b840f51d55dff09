"""Summaries of the passes over words and labels: moments in whitened coordinates, and sums weighted by the states.

No array of size d x d (for many words), d x d x d or k^2 x L is formed.
"""

from collections.abc import Callable
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from scipy import sparse

from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine.summary import BlockSize, MemoryEstimate, add_fields, get_memory_estimate
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import check_indicator, compute_gram, sum_rows
from dspectral.methods.multilabel.documents import (
    DocumentSample,
    SampleBounds,
    hash_rows,
    linear_features,
    unit_rows,
    word_rows,
)
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s, IntArray, Rows

WordSketch: TypeAlias = FrequentDirections | Moments | GramProduct
PANEL_ROWS = 1024
"""Rows of one panel of pairwise products."""
NO_SAMPLE = SampleBounds(0, 0, 0.0)
"""Limits of an empty sample."""


class FirstMoments(NamedTuple):
    """Summary of the first pass: a sketch of the second moment of words, and the range of their moment with labels.

    Shapes: `document_frequency, unit_total` (d,): ``A_u' 1``; `label_totals` (L,), `label_range` (d, r): ``A_u' (Y
    Omega)``. `pairs`: pairs of positions in one document, over all documents.
    """

    sketch: WordSketch
    pairs: float
    document_frequency: Int64s
    unit_total: Doubles
    label_totals: Int64s
    label_range: FloatArray
    sample: DocumentSample

    @classmethod
    def estimate_block_memory(
        cls, block: BlockSize, *, sketch: Callable[[Rows], WordSketch], rank: int, **_settings: object
    ) -> MemoryEstimate:
        """Return the memory estimate of the sketch, the counts and the range; the sample is bounded."""
        estimate = get_memory_estimate(sketch, block)
        label_range = 4 * rank * block.n_columns
        summary = label_range + 16 * block.n_columns + 8 * block.n_other_columns
        return estimate._replace(
            summary=estimate.summary + summary,
            work=estimate.work + summary,
            block=estimate.block + 2 * label_range,
        )

    @classmethod
    def from_block(
        cls,
        rows: Rows,
        labels: Rows,
        *,
        sketch: Callable[[Rows], WordSketch],
        use_counts: bool,
        exclude_self_pairs: bool,
        rank: int,
        seed: int = 0,
        bounds: SampleBounds = NO_SAMPLE,
    ) -> Self:
        """Summarize one block. Shapes: `rows` (n, d), `labels` (n, L)."""
        check_indicator(labels)
        words = word_rows(rows, keep_counts=use_counts)
        Y = word_rows(labels, keep_counts=False, dtype=np.float32)
        length = words.astype(np.float64) @ np.ones(words.shape[1])
        sizes = np.diff(words.indptr)
        # Exclude held-out documents from the directions, else model selection would be biased.
        is_training = hash_rows(words).astype(np.float64) > bounds.share * 2.0**64 if rank else np.ones(len(sizes))
        unit = np.repeat(is_training / np.sqrt(np.maximum(1, sizes)), sizes)
        sampled, values = slice(0), words  # held-out documents keep their weights
        if bounds.n_documents:
            sampled, values = slice(None), word_rows(rows, keep_counts=True)
        return cls(
            sketch(words),
            float(np.sum(length * (length - 1.0 if exclude_self_pairs else length))),
            np.bincount(words.indices, minlength=words.shape[1]),
            np.bincount(words.indices, weights=unit, minlength=words.shape[1]).astype(np.float64),
            np.bincount(Y.indices, minlength=Y.shape[1]),
            label_range(words, sparse.csr_array(sparse.diags_array(is_training.astype(Y.dtype)) @ Y), rank, seed),
            DocumentSample.from_block(values[sampled], Y[sampled], bounds=bounds),
        )

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class SecondMoments(NamedTuple):
    """Summary of the second pass: moments of words in whitened coordinates, and a product with the directions.

    Shapes: `second` (k, k); `third` (k, k (k + 1) / 2): entries ``(i, j <= l)``; `gram_directions` (d, r):
    ``A_u' A_u D``, for A_u the weighted rows at unit length and D the directions. `pairs, triples`: numbers of
    positions in one document.
    """

    second: Doubles
    third: Doubles
    pairs: float
    triples: float
    gram_directions: FloatArray

    @classmethod
    def estimate_block_memory(
        cls, block: BlockSize, *, whitening: FloatArray, directions: FloatArray, **_settings: object
    ) -> MemoryEstimate:
        """Return the memory estimate: both moments, the product, and the whitened rows in two precisions."""
        k = whitening.shape[1]
        summary = 8 * (k**2 + k**2 * (k + 1) // 2) + 4 * directions.size
        return MemoryEstimate(summary, summary + block.n_rows * (k + directions.shape[1]) * 16)

    @classmethod
    def from_block(
        cls,
        rows: Rows,
        *,
        whitening: FloatArray,
        use_counts: bool,
        exclude_self_pairs: bool,
        directions: FloatArray,
        column_weights: Doubles,
    ) -> Self:
        """Summarize one block: ``n k^3 / 3`` operations, and ``k^3`` for each word if ``exclude_self_pairs``."""
        words = word_rows(rows, keep_counts=use_counts)
        # Sums over more than PANEL_ROWS documents are in double precision.
        Y = np.asarray(sparse_products.times(words, whitening), dtype=np.float64)
        length = words.astype(np.float64) @ np.ones(words.shape[1])
        # The unbiased moment subtracts nearly equal terms, so its products are in double precision.
        factors = Y if exclude_self_pairs else Y.astype(whitening.dtype)
        second, third = Y.T @ Y, _contract_third_moment(factors, factors)
        n, m = (length, length) if not exclude_self_pairs else (length - 1.0, length - 2.0)
        if exclude_self_pairs:
            # Inclusion-exclusion over coinciding positions: subtract pairs of a word with itself from the second
            # moment, and the three kinds of coinciding pairs, plus twice the triples, from the third.
            total = sum_rows(words)
            present = np.flatnonzero(total)
            W, s = np.asarray(whitening[present], dtype=np.float64), total[present][:, None]
            second -= (W * s).T @ W
            word_sums = sparse_products.transpose_times(words, Y)[present]
            third -= 3.0 * _contract_third_moment(word_sums - (2.0 / 3.0) * s * W, W)
        gram_directions = np.zeros(directions.shape, dtype=np.float32)
        if directions.size:
            unit = unit_rows(rows, column_weights, np.float32)
            gram_directions = sparse_products.gram_times(unit, directions.astype(np.float32, copy=False))
        return cls(second, third, float(np.sum(length * n)), float(np.sum(length * n * m)), gram_directions)

    def merge(self, *others: Self) -> Self:
        """Return the moments and products of all rows."""
        return add_fields(self, *others)


def label_range(words: CSRRows, Y: CSRRows, rank: int, seed: int) -> FloatArray:
    """Return ``A_u' (Y Omega)``, the range of words' moment with labels, shape (d, r) or (d, L)."""
    # Dividing the rows of Y Omega by the norms of the word rows is cheaper than scaling the words.
    present = word_rows(words, keep_counts=False, dtype=np.float32)
    sizes = np.sqrt(np.maximum(1.0, np.diff(words.indptr)))[:, None]
    mixed = sparse_products.times(Y, draw_label_mixing(Y.shape[1], rank, seed))
    return sparse_products.transpose_times(present, np.divide(mixed, sizes, dtype=np.float32))


def draw_label_mixing(n_labels: int, rank: int, seed: int) -> FloatArray:
    """Return Omega, shape (L, r), or the identity for few labels; tasks redraw it instead of receiving it."""
    if n_labels <= rank:
        return np.eye(n_labels, dtype=np.float32)
    return np.random.default_rng(seed).standard_normal((n_labels, rank), dtype=np.float32)


def _contract_third_moment(left: FloatArray, right: FloatArray) -> Doubles:
    """Return ``sum_i left_i (right_i right_i')`` for the pairs ``j <= l``, shape (k, k (k + 1) / 2)."""
    # For each j one matrix product of left with the columns right_j right_l, l >= j: n k^3 operations in k products,
    # with PANEL_ROWS (k + 1) numbers in memory. If both are the same, symmetry saves two thirds. Single precision sums
    # at most PANEL_ROWS rows.
    k, same = left.shape[1], left is right
    starts = np.concatenate([[0], np.cumsum(np.arange(k, 0, -1))])  # of the pairs (j, j), (j, j + 1), ...
    out = np.zeros((k, starts[-1]))
    for start in range(0, len(left), PANEL_ROWS):
        rows, panel = (
            np.ascontiguousarray(left[start : start + PANEL_ROWS].T),
            right[start : start + PANEL_ROWS],
        )
        for j in range(k):
            used = slice(j + 1 if same else k)
            out[used, starts[j] : starts[j + 1]] += rows[used] @ (panel[:, j:] * panel[:, j : j + 1])
    if same:  # fill in entries with i > j by symmetry
        first, second = np.triu_indices(k)
        for i in range(1, k):
            later = np.arange(starts[i])  # the pairs whose j is below i
            low, high = np.minimum(second[later], i), np.maximum(second[later], i)
            out[i, later] = out[first[later], starts[low] + high - low]
    return out


class RegressionSums(NamedTuple):
    """Cross products for linear models of the labels.

    `gram` (q + 1, q + 1): ``F'F``, for F the features with a last column of ones; `labels` (L, q + 1): ``Y'F``, for Y
    the labels.
    """

    gram: Doubles
    labels: FloatArray

    @classmethod
    def from_block(cls, word_features: CSRRows, direction_features: FloatArray, Y: CSRRows) -> Self:
        """Sum the products of features, `word_features` (n, m) and `direction_features` (n, s), and labels."""
        # In double precision, since inverting F'F amplifies rounding.
        F, m = direction_features.astype(np.float64), word_features.shape[1]
        gram = np.empty((m + F.shape[1],) * 2)
        gram[:m, :m] = compute_gram(word_features)
        gram[:m, m:] = sparse_products.transpose_times(word_features, F)
        gram[m:, :m], gram[m:, m:] = gram[:m, m:].T, F.T @ F
        word_label_products = np.asarray(
            (sparse.csr_array(Y.T) @ word_features).toarray(), dtype=direction_features.dtype
        )
        return cls(
            gram,
            np.concatenate([word_label_products, sparse_products.transpose_times(Y, direction_features)], axis=1),
        )

    def merge(self, *others: Self) -> Self:
        """Return the cross products of all rows."""
        return add_fields(self, *others)


class StateStatistics(NamedTuple):
    """Sums of labels and words weighted by the posteriors of the states.

    Shapes: `weights` (k,); `labels` (L, k): weighted by posteriors, or in the third pass by the squares
    ``(w_j' x)^2``; `words` (d, k). `log_likelihood`: of the words, without the multinomial coefficient.
    `label_state_counts` (L + 1, k): documents expected in each state given words: with each label, and all.
    """

    n_rows: int
    weights: Doubles
    log_likelihood: float
    labels: FloatArray
    words: FloatArray
    regression: RegressionSums
    label_state_counts: FloatArray

    @classmethod
    def estimate_block_memory(
        cls,
        block: BlockSize,
        *,
        directions: FloatArray,
        own_words: IntArray,
        log_weights: Doubles,
        **_settings: object,
    ) -> MemoryEstimate:
        """Return the memory estimate: products of features with features and labels, twice while computing."""
        q = len(own_words) + directions.shape[1] + 1
        size = 8 * q**2 + block.itemsize * block.n_other_columns * (q + 2 * len(log_weights))
        return MemoryEstimate(size, 2 * size)

    @classmethod
    def from_block(
        cls,
        rows: Rows,
        labels: Rows,
        *,
        log_words: FloatArray,
        log_weights: Doubles,
        directions: FloatArray,
        own_words: IntArray,
        column_weights: Doubles,
        use_counts: bool,
        log_labels: FloatArray | None = None,
        squares: FloatArray | None = None,
        exclude_self_pairs: bool = False,
    ) -> Self:
        """Summarize one block.

        Shapes: `rows` (n, d), `labels` (n, L), `log_words` (d, k), `log_weights` (k,), `directions` (d, s),
        `own_words` (m,), `column_weights` (d,), `log_labels` (L, k), `squares` (d, k).
        """
        # E-step: p(j | x) is proportional to pi_j prod_v mu_vj^(x_v), in logarithms one product of the rows with
        # log_words; with labels, times prod_l gamma_lj^(label_weight y_l). P is the posterior given words only, as in
        # prediction; `posterior` may also use the labels. The M-step divides the sums of posterior times rows. Cost:
        # 2 (nnz of words + nnz of labels) (k + s) operations, the Gram matrix of m words, and O(n k) numbers.
        words = word_rows(rows, keep_counts=use_counts)
        Y = word_rows(labels, keep_counts=False, dtype=np.float32)
        scores = sparse_products.times(words, log_words) + log_weights
        P, log_likelihood = compute_posteriors(scores)
        P = P.astype(log_words.dtype)
        posterior = P
        if log_labels is not None:
            posterior = compute_posteriors(scores + sparse_products.times(Y, log_labels))[0].astype(P.dtype)
        weights: FloatArray = posterior
        if squares is not None:
            weights = sparse_products.times(words, squares) ** 2  # (w_j' x)^2
            if exclude_self_pairs:  # minus sum_v x_v w_vj^2, words paired with themselves
                weights -= sparse_products.times(words, squares**2)
        features = linear_features(rows, column_weights, own_words, directions, words.dtype)
        none = np.zeros((0, P.shape[1]), dtype=P.dtype)
        return cls(
            words.shape[0],
            posterior.sum(axis=0, dtype=np.float64),
            log_likelihood,
            sparse_products.transpose_times(Y, weights),
            sparse_products.transpose_times(words, posterior) if squares is None else none,
            RegressionSums.from_block(*features, Y),
            np.concatenate([sparse_products.transpose_times(Y, P), P.sum(axis=0, keepdims=True)]),
        )

    @property
    def regression_and_likelihood(self) -> tuple[RegressionSums, FloatArray, float]:
        """The sums of the linear model, the label counts of the states, and the mean log-likelihood."""
        return self.regression, self.label_state_counts, self.log_likelihood / max(1, self.n_rows)

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        return add_fields(self, *others)


def compute_posteriors(scores: FloatArray) -> tuple[Doubles, float]:
    """Return state posteriors from joint log-probabilities of shape (n, k), and the log-likelihood."""
    scores = np.asarray(scores, dtype=np.float64)
    # Subtract the row maximum to avoid overflow and underflow.
    peak = scores.max(axis=1, keepdims=True)
    P = np.exp(scores - peak)
    total = P.sum(axis=1, keepdims=True)
    return P / total, float(np.sum(peak) + np.sum(np.log(total)))
