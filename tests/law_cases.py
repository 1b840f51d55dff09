"""Cases of the laws: every class with a merge, made of streams that can be cut anywhere."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import AllRows, GramProduct, Moments, RowFactor
from dspectral.decomposition.nystrom import NystromSketch
from dspectral.exploring.groups import GroupSums
from dspectral.methods.hmm.expected_counts import ExpectedCounts, Likelihood
from dspectral.methods.hmm.inference import HiddenMarkov
from dspectral.methods.hmm.refinement.starts import OperatorMoments, ViewMoments, Views
from dspectral.methods.lsi.hybrid import ClassGramProduct
from dspectral.methods.lsi.linear_svm import Relevancy, SquaredHinge, TopScores
from dspectral.methods.lsi.local_regions import LocalSpaces
from dspectral.methods.multilabel.documents import DocumentSample, SampleBounds
from dspectral.methods.multilabel.summaries import (
    FirstMoments,
    RegressionSums,
    SecondMoments,
    StateStatistics,
)
from dspectral.methods.tmpca.levels import CollectedNodes, TokenPairCounts, Trees
from dspectral.methods.topics.period_counts import PeriodCounts
from dspectral.methods.topics.rotation import CoordinateSample, TopicAxes, TopicMixture, TopicSums
from dspectral.pp.cells import ColumnSums
from dspectral.search import Nearest
from dspectral.store.from_text.texts import PartitionResults
from dspectral.store.rows import ColumnTotals
from dspectral.text.hashing import HashingSettings
from dspectral.text.term_sample import TermSample
from dspectral.text.terms import TermTable
from dspectral.text.weighting import DocumentFrequencies, Weighting
from dspectral.types import Documents, LabeledSentences, Sentences

D, L, K, TYPES = 9, 3, 4, 7
"""Columns, labels or classes, states or components, and word types of the blocks below."""
SLACK = 2048
"""Bytes for the numbers and the few short arrays of any summary."""


# Streams: what a block is made of. Each can be drawn at any size and cut anywhere.


class Rows(NamedTuple):
    """Counts of words, half of them zero."""

    array: Any

    def part(self, a, b):
        return self.array[a:b]


class Tokens(NamedTuple):
    """Sentences of token ids with labels; some are empty."""

    sentences: list
    labeled: bool

    def part(self, a, b):
        plain = Sentences.from_ids([ids for ids, _ in self.sentences[a:b]])
        if not self.labeled:
            return plain
        labels = [label for _, labels in self.sentences[a:b] for label in labels]
        return LabeledSentences(plain.ids, np.array(labels, dtype=np.int32), plain.offsets)


class Texts(NamedTuple):
    """Documents as text."""

    texts: list

    def part(self, a, b):
        return Documents.from_strings(self.texts[a:b])


def rows(rng, n):
    return Rows(rng.poisson(0.7, size=(n, D)).astype(float))


def csr(rng, n):
    return Rows(sparse.csr_array(rows(rng, n).array))


def labels(rng, n):
    return Rows(sparse.csr_array((rng.random((n, L)) < 0.4).astype(float)))


def unit_classes(rng, n):
    found = labels(rng, n).array.toarray()
    return Rows(sparse.csr_array(found / np.maximum(1.0, np.linalg.norm(found, axis=1))[:, None]))


def features(rng, n):
    return Rows(rng.standard_normal((n, K)))


def numbers(_, n):
    return Rows(np.arange(n)[:, None])


def cells(rng, n):
    return Rows(rng.integers(-1, 8, size=(n, 1)))


def tokens(rng, n, labeled=False):
    lengths = rng.integers(0, 6, size=n)
    return Tokens([(rng.integers(TYPES, size=m), rng.integers(L, size=m)) for m in lengths], labeled)


def texts(rng, n):
    words = np.array(["to", "be", "or", "not", "Ärger", "that"])
    return Texts([" ".join(rng.choice(words, size=rng.integers(0, 6))) for _ in range(n)])


# Parameters that a pass hands to ``of``.

RNG = np.random.default_rng(5)
MODEL = HiddenMarkov(
    RNG.dirichlet(np.ones(K)),
    RNG.dirichlet(np.ones(K), size=K).T * 0.9,
    RNG.dirichlet(np.ones(TYPES), size=K).T,
    np.ones(K),
)
VIEWS = Views(RNG.standard_normal((TYPES, 2)), np.array([0.5]), np.array([0.9]), L)
PROJECTIONS = RNG.standard_normal((L, VIEWS.width + 1, 2))
RELEVANCY = Relevancy(RNG.standard_normal((D, L)), RNG.standard_normal(L), 1.5, 0.1)
TREES = Trees(length=4, arity=2, n_dimensions=2, table=RNG.standard_normal((TYPES, 2)))
STATES = {
    "log_words": np.log(RNG.dirichlet(np.ones(D), size=K).T),
    "log_weights": np.log(np.full(K, 1 / K)),
    "directions": RNG.standard_normal((D, 2)),
    "own_words": np.array([1, 3]),
    "column_weights": np.ones(D),
    "use_counts": True,
}
FIRST = {"use_counts": True, "exclude_self_pairs": True, "rank": 2, "sketch": Moments.from_block}
THIRD = {"whitening": RNG.standard_normal((D, K)), "use_counts": True, "exclude_self_pairs": True}
HINGE = {"axes": np.full((D, L), 1e-3), "offsets": np.zeros(L), "relevancy": RELEVANCY}
OPERATORS = {"views": VIEWS, "past": PROJECTIONS, "future": -PROJECTIONS}
MIXTURE = TopicMixture(RNG.random((2, D)), np.ones(2))
AXES = TopicAxes(RNG.standard_normal((2, D)), np.array([2.0, 1.0]), np.linalg.qr(RNG.standard_normal((2, 2)))[0])
NODES = {"trees": TREES, "axes": (RNG.standard_normal((2, 4)),)}
TAGGED = partial(tokens, labeled=True)


class Case(NamedTuple):
    """A summary class, what its blocks are, how one is summarized, and the most bytes that the class states."""

    kind: type
    streams: tuple[Callable, ...]
    of: Callable
    most_bytes: Callable[[int], int]
    name: str = ""


def case(kind, streams, most_bytes, /, name="", **parameters):
    return Case(kind, streams, partial(kind.from_block, **parameters), most_bytes, f"{kind.__name__}{name}")


CASES = [
    case(Moments, (rows,), lambda n: 8 * (D * D + D)),
    case(Moments, (rows,), lambda n: 8 * (D * D + D), " centered", center=True),
    case(RowFactor, (rows,), lambda n: 8 * (D * D + D)),
    case(AllRows, (csr,), lambda n: 12 * n * D + 4 * n),
    case(GramProduct, (rows,), lambda n: 8 * (2 * D + D), factor=np.ones((D, 2))),
    case(GramProduct, (csr,), lambda n: 8 * (2 * D + D), " of CSR", factor=np.ones((D, 2))),
    case(GramProduct, (rows,), lambda n: 8 * (2 * D + D + 2), " centered", factor=np.ones((D, 2)), center=True),
    case(
        NystromSketch,
        (rows,),
        lambda n: 8 * (3 * D + 64 * D + 2 * D + 3 + 64),
        basis=np.eye(D)[:, :3],
        probes=RNG.standard_normal((D, 64)),
    ),
    case(FrequentDirections, (rows,), lambda n: 8 * (5 * D + D), size=5),
    case(FrequentDirections, (rows,), lambda n: 8 * (5 * D + D), " centered", size=5, center=True),
    case(DocumentFrequencies, (csr,), lambda n: 8 * D),
    case(ColumnTotals, (csr,), lambda n: 16 * D),
    case(FirstMoments, (csr, labels), lambda n: 8 * (D * D + 3 * D + 2 * D + L), **FIRST),
    case(
        FirstMoments,
        (csr, labels),
        lambda n: 8 * (D * D + 3 * D + 2 * D + L + 5 * 30),
        " with a sample",
        bounds=SampleBounds(5, 30, 1.0),
        **FIRST,
    ),
    case(
        DocumentSample,
        (csr, lambda rng, n: Rows(sparse.csr_array(rng.integers(2, size=(n, L)).astype(np.float32)))),
        lambda n: 16 * 40 + 24 * 7,
        bounds=SampleBounds(7, 40, 0.7),
    ),
    case(
        SecondMoments,
        (csr,),
        lambda n: 8 * (K * K + K * K * (K + 1) // 2 + 2 * D),
        directions=RNG.standard_normal((D, 2)),
        column_weights=np.ones(D),
        **THIRD,
    ),
    case(StateStatistics, (csr, labels), lambda n: 8 * (2 * K + 2 * K * L + K * D + 5 * (5 + L)), **STATES),
    Case(
        RegressionSums,
        (csr, labels),
        lambda *block: StateStatistics.from_block(*block, **STATES).regression,
        lambda n: 8 * 5 * (5 + L),
        "Regression",
    ),
    case(SquaredHinge, (rows, labels), lambda n: 8 * (D * L + 2 * L), **HINGE),
    case(TopScores, (rows,), lambda n: 16 * 5 * L + 8 * L, relevancy=RELEVANCY, limits=np.array([5, 2, 0])),
    case(
        ClassGramProduct,
        (csr, unit_classes),
        lambda n: 8 * (D + 2 * D + L * D),
        alpha=0.3,
        factor=np.ones((D, 2)),
    ),
    case(ContextCounts, (tokens,), lambda n: 12 * TYPES * TYPES + 8 * TYPES, n_types=TYPES, window=2),
    case(ExpectedCounts, (tokens,), lambda n: 8 * (2 * K + K * K + K * TYPES), model=MODEL),
    case(Likelihood, (tokens,), lambda n: 0, model=MODEL),
    case(ViewMoments, (TAGGED,), lambda n: 8 * L * (2 * VIEWS.width + 1) ** 2, views=VIEWS),
    case(OperatorMoments, (TAGGED,), lambda n: 8 * (L * (TYPES + L) * 4 + 4 * L), **OPERATORS),
    case(TokenPairCounts, (tokens,), lambda n: 12 * TYPES * TYPES + 16 * TYPES, n_types=TYPES, length=4),
    case(CoordinateSample, (csr, numbers), lambda n: 16 * n + 12 * D * n + 8, axes=AXES, step=2, row_step=3),
    case(TopicSums, (csr, numbers), lambda n: 16 * (2 * D + 2 + 2 * 3), axes=AXES, mixture=MIXTURE, n_nearest=3),
    case(
        PeriodCounts,
        (csr, cells),
        lambda n: 8 * 8 * 3 + 12 * 2 * D * 8 + 100,
        weighting=Weighting("count", np.ones(D), None, "l2"),
        mixture=MIXTURE,
        slots=np.arange(2 * D, dtype=np.int32).reshape(2, D) - 1,
        n_cells=8,
        n_words=2 * D - 1,
    ),
    case(GroupSums, (features, numbers), lambda n: 8 * 3 * (K + 1), codes=np.arange(1000) % 4 - 1, n_groups=3),
    case(TermTable, (texts,), lambda n: 6 * (24 + 8)),
    case(ColumnSums, (csr, numbers), lambda n: 3 * (8 + 16 * D), n_batches=3, batches=np.arange(1000) % 3),
    case(Nearest, (features, numbers), lambda n: 2 * 4 * (4 + 8 + 4), queries=np.eye(K, dtype=np.float32)[:2], n=4),
    # These two keep what they are given, one after the other: the caller bounds how many rows that are.
    case(
        LocalSpaces,
        (rows, lambda rng, n: Rows(np.ones((n, 1)))),
        lambda n: 8 * 2 * D * (n + 1),
        n_components=2,
        seed=0,
    ),
    case(CollectedNodes, (tokens,), lambda n: n * (8 * 2 * 2 + 8), **NODES),
    case(TermSample, (texts,), lambda _: 3000, settings=HashingSettings(), size=100),
    Case(
        PartitionResults,
        (rows,),
        lambda block: PartitionResults(tuple(block)),
        lambda n: 8 * n * D,
        "PartitionResults",
    ),
]
SKETCHES = (FrequentDirections, LocalSpaces, RowFactor)
"""Summaries whose merge is within a bound of the whole, or lists what it is given, and does not equal the whole.

Of a triangular factor the signs of rows, and all of those below the rank, depend on the cuts.
"""
