"""A hidden Markov model whose states have a word of their own each, found from counts of neighbours."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import Blocks, blas_in_one_thread, summarize
from dspectral.inputs.sequences import as_corpus
from dspectral.linalg.simplex import nearest_in_simplex
from dspectral.methods.brown.clustering import adjacent_counts
from dspectral.methods.brown.exchange import Adjacent, exchange_sweep
from dspectral.methods.brown.type_features import Marks
from dspectral.methods.hmm.anchor.points import (
    REDUCTIONS,
    Neighbours,
    Reducing,
    Reduction,
    context_points,
    joined,
    spelled_points,
)
from dspectral.methods.hmm.anchor.search import chain_from_moments, emissions, find_anchors
from dspectral.methods.hmm.anchor.word_types import WordTypes
from dspectral.methods.hmm.em import checked_decoding
from dspectral.methods.hmm.expected_counts import ExpectedCounts
from dspectral.methods.hmm.inference import maximized, smooth, viterbi
from dspectral.registry import saved
from dspectral.types import FloatArray, Sentences

DOUBT = 0.05
"""Share of the states' marginals that EM mixes into ``p(h | x)`` before it: from 0 it could not come away."""


@saved
class AnchorHMM(BaseEstimator):
    """Hidden Markov model each of whose states has an anchor: a word that no other state emits.

    The contexts of a word are a mixture of the states' contexts, and those of an anchor are its state's: anchors are
    corners among the points that words are, and convex coefficients of the other words say ``p(h | x)``. Bayes'
    rule turns that into emissions; transitions follow from how often words are adjacent. Sweeps may then give each
    word but the anchors to the one state where that explains its neighbours, and its spelling, best.

    Parameters
    ----------
    n_states : int
    reduction : {"clusters", "cca", "svd", "random"}
        How contexts become coordinates: counted by clusters of the neighbours, on canonical or singular vectors,
        or on random ones.
    context : {"list", "bag"}
        Whether the neighbours on the left and on the right are apart.
    transform : {"sqrt", "log", "none"} or float
        Of the counts of contexts (a float is a power).
    n_dimensions : int, optional
        Coordinates; ``n_states`` if not given.
    n_clusters : int
        Of neighbours, for ``"clusters"``.
    n_candidates : int
        The most frequent words: anchors are among them.
    anchors : sequence of str, optional
        Words that are the anchors of the first states.
    reselect : int
        Most rounds in which each anchor is picked again, given the others.
    smoothing : float
        Tokens with average contexts, added to each word's.
    spelling : float
        Weight of what words look like beside their contexts, in the points and in the sweeps. Above 0, rare words
        are merged by their spelling.
    min_count : int
        Words that occur less often are merged: into ``"<?>"``, or into classes by spelling.
    sweeps : int
        Most exchange sweeps. With 0, ``p(h | x)`` are the convex coefficients.
    transition_iter : int
        EM passes for the transitions alone, after they were set from moments.
    polish : int
        EM passes for all parameters.
    decoding : {"posterior", "viterbi"}
        The most probable state of each token, or the most probable path.
    fan_in : int
    random_state : int

    Attributes
    ----------
    anchors_ : list of str
        Of each state.
    words_ : list of str
        Types of their own, in order of falling count; the first is ``"<?>"``.
    classes_ : list of str
        Types of rare words: ``"<a*ing>"`` is that of those in lower case that end so.
    membership_ : ndarray of float64, shape (n_types, n_states)
        ``p(h | x)`` of ``words_``, then ``classes_``, before any EM.
    model_ : HiddenMarkov
        Over the same types. Without ends: ``final`` is ones.
    log_likelihoods_ : list of float
        Before each pass of EM.
    n_passes_ : int
        Over the sentences: one, and those of EM.

    Notes
    -----
    ``reduction="cca", sweeps=0, reselect=0, transition_iter=10`` comes nearest to the paper; with
    ``transform="none", min_count=1`` too, the model is recovered as the counts grow. Memory: the counts of adjacent
    types a few times over, and ``n_types * (2 n_clusters + n_states)`` numbers; it does not grow with the sentences
    otherwise.

    References
    ----------
    Stratos, Collins and Hsu 2016, "Unsupervised part-of-speech tagging with anchor hidden Markov models"; Clark
    2003, "Combining distributional and morphological information for part of speech induction".

    Examples
    --------
    >>> sentences = [["the", "cat", "sees", "a", "dog"], ["a", "cat", "likes", "the", "bird"]] * 5
    >>> hmm = AnchorHMM(3, min_count=1, anchors=["the", "cat"]).fit(sentences)
    >>> hmm.predict([["a", "bird"]])
    [array([0, 1])]
    """

    def __init__(  # noqa: PLR0913  each choice is a parameter, as scikit-learn wants
        self,
        n_states: int = 12,
        *,
        reduction: Reduction = "clusters",
        context: Literal["list", "bag"] = "list",
        transform: Literal["sqrt", "log", "none"] | float = "sqrt",
        n_dimensions: int | None = None,
        n_clusters: int = 30,
        n_candidates: int = 300,
        anchors: Sequence[str] | None = None,
        reselect: int = 5,
        smoothing: float = 0.0,
        spelling: float = 0.0,
        min_count: int = 4,
        sweeps: int = 10,
        transition_iter: int = 0,
        polish: int = 0,
        decoding: Literal["posterior", "viterbi"] = "posterior",
        fan_in: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_states = n_states
        self.reduction = reduction
        self.context = context
        self.transform = transform
        self.n_dimensions = n_dimensions
        self.n_clusters = n_clusters
        self.n_candidates = n_candidates
        self.anchors = anchors
        self.reselect = reselect
        self.smoothing = smoothing
        self.spelling = spelling
        self.min_count = min_count
        self.sweeps = sweeps
        self.transition_iter = transition_iter
        self.polish = polish
        self.decoding = decoding
        self.fan_in = fan_in
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count neighbours, find anchors, and make the model.

        Parameters
        ----------
        X : Corpus, or list of token lists
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no word, none with a neighbour, or fewer types or candidates than states; if a given anchor
            is no type of its own; or a parameter is out of its range.
        """
        self._check()
        corpus = as_corpus(X)
        types = WordTypes.of(corpus.words, corpus.counts, self.min_count, spelled=self.spelling > 0)
        sentences = types.blocks(corpus)
        self.words_, self.classes_ = types.words, types.classes
        near = Neighbours(adjacent_counts(sentences, types.n_types), types.counts(corpus))
        self.n_passes_ = 1
        if not near.pairs.nnz:
            raise ValueError("no word has a neighbour: every sentence is one word, or none")
        candidates, given = self._candidates(types, near.counts)
        table = types.marks() if self.spelling else None
        with blas_in_one_thread():
            points = self._points(near, table)
            anchors = find_anchors(points, candidates, self.n_states, given=given, reselect=self.reselect)
            membership = nearest_in_simplex(points, points[anchors])
        if self.sweeps:
            membership = self._swept(near, table, membership, anchors)
        self.anchors_ = [types.name(i) for i in anchors]
        self._set_model(sentences, near, membership)
        return self

    def predict(self, X: Any) -> list[NDArray[np.integer[Any]]]:
        """Return the state of each token of each sentence.

        Parameters
        ----------
        X : list of token lists
            A word that was never seen is of the class with the longest ending in common, if words are spelled, or
            else ``"<?>"``.
        """
        sentences = self.encode(X)
        return list(np.split(self.states(sentences), sentences.offsets[1:-1])) if len(X) else []

    def encode(self, X: Sequence[Sequence[str]]) -> Sentences:
        """Return sentences as ids of types: ``words_``, then ``classes_``."""
        check_is_fitted(self)
        return WordTypes(self.words_, self.classes_).encode(X)

    def blocks(self, corpus: Any) -> Blocks:
        """Return the sentences of a corpus as blocks of ids of types, each for :meth:`states`."""
        check_is_fitted(self)
        return WordTypes(self.words_, self.classes_).blocks(corpus)

    def states(self, sentences: Sentences) -> NDArray[np.integer[Any]]:
        """Return the states of a block of ids of types, shape (n_tokens,)."""
        check_is_fitted(self)
        if self.decoding == "viterbi":
            return viterbi(sentences, self.model_).states
        return np.asarray(np.argmax(smooth(sentences, self.model_).posterior, axis=1))

    def _candidates(self, types: WordTypes, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int]]:
        """Return the types that may be anchors: the most frequent words, classes where there are few."""
        own = np.arange(1, len(types.words))
        rest = np.concatenate([np.arange(len(types.words), types.n_types), [0]])
        order = np.concatenate([own, rest[np.argsort(-counts[rest], kind="stable")]])
        candidates = order[counts[order] > 0][: self.n_candidates]
        given = [types.own(word) for word in self.anchors or ()]
        if len(set(candidates.tolist()) | set(given)) < self.n_states:
            raise ValueError(
                f"n_states is {self.n_states}, but there are {len(candidates)} candidates for their anchors "
                f"(n_candidates = {self.n_candidates}, min_count = {self.min_count})"
            )
        return candidates, given

    def _points(self, near: Neighbours, table: sparse.csr_array | None) -> NDArray[np.float64]:
        k = self.n_dimensions or self.n_states
        how = Reducing(
            self.reduction, self.context, self.transform, k, self.n_clusters, int(self.random_state)
        )
        parts = [(context_points(near, how), 1.0)]
        if table is not None:
            parts.append((spelled_points(table, near.counts, 2 * k, int(self.random_state)), self.spelling))
        points = joined(parts, near.counts, k)
        shrunk = near.counts / np.maximum(near.counts + self.smoothing, 1.0)
        return np.asarray(points * shrunk[:, None])

    def _swept(
        self,
        near: Neighbours,
        table: sparse.csr_array | None,
        membership: NDArray[np.float64],
        anchors: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Give each type to one state, that of its largest coefficient first."""
        labels = np.argmax(membership, axis=1).astype(np.int32)
        labels[anchors] = np.arange(self.n_states)
        marks = None if table is None else _marks(table, self.spelling * near.counts)
        adjacent = Adjacent.of(near.pairs)
        for _ in range(self.sweeps):
            moved = exchange_sweep(adjacent, labels, self.n_states, marks, fixed=anchors)
            if moved <= len(labels) // 1000:
                break
        return np.asarray(np.eye(self.n_states)[labels])

    def _set_model(self, sentences: Blocks, near: Neighbours, membership: NDArray[np.float64]) -> None:
        counts = near.counts.astype(np.float64)
        emission, marginal = emissions(membership, counts)
        self.membership_ = np.where(counts[:, None] > 0, membership, marginal)
        self.model_ = chain_from_moments(self.membership_, emission, near.pairs, near.first, prior=1.0)
        self.log_likelihoods_: list[float] = []
        for step in range(self.transition_iter + self.polish):
            if step == self.transition_iter:
                doubted = (1.0 - DOUBT) * self.membership_ + DOUBT * marginal
                self.model_ = self.model_._replace(emission=emissions(doubted, counts)[0])
            of = partial(ExpectedCounts.of, model=self.model_)
            found = summarize(sentences, of=of, fan_in=self.fan_in, name="expect")
            after = maximized(found.counts, lengths=False)
            fixed = step < self.transition_iter
            self.model_ = after._replace(emission=self.model_.emission) if fixed else after
            self.log_likelihoods_.append(found.log_likelihood)
        self.n_passes_ += self.transition_iter + self.polish

    def _check(self) -> None:
        for name, least in (
            ("n_states", 1),
            ("n_clusters", 1),
            ("n_candidates", 1),
            ("min_count", 1),
            ("reselect", 0),
            ("sweeps", 0),
            ("transition_iter", 0),
            ("polish", 0),
            ("smoothing", 0),
            ("spelling", 0),
        ):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is {getattr(self, name)}, but it must be at least {least}")
        if self.n_dimensions is not None and self.n_dimensions < 1:
            raise ValueError(f"n_dimensions is {self.n_dimensions}, but it must be at least 1, or None")
        if self.reduction not in REDUCTIONS:
            raise ValueError(
                f"reduction is {self.reduction!r}, but it must be one of {', '.join(REDUCTIONS)}"
            )
        if self.context not in ("list", "bag"):
            raise ValueError(f"context is {self.context!r}, but it must be 'list' or 'bag'")
        checked_decoding(self.decoding)


def _marks(table: sparse.csr_array, weights: FloatArray) -> Marks:
    """Let the marks of a type share its weight."""
    sizes = np.maximum(np.diff(table.indptr), 1)
    return Marks(
        table.indptr.astype(np.int64),
        table.indices.astype(np.int32),
        np.asarray(weights / sizes, dtype=np.float64),
        table.shape[1],
    )
