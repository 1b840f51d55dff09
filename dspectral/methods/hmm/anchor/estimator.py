"""Anchor hidden Markov model: each state has a word that no other state emits."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Self, cast, get_args

import numpy as np

from dspectral.engine import Blocks, expect_passes, summarize, tracked_fit
from dspectral.inputs.sequences import HoldsSentences, TokenLists, as_corpus
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.methods.brown.adjacent_pairs import count_adjacent_pairs
from dspectral.methods.hmm.anchor.points import Contexts, NeighborCounts, WordTypes, compute_word_points
from dspectral.methods.hmm.anchor.search import (
    chain_from_moments,
    emission_from_membership,
    find_anchors,
    project_to_simplex,
    smooth_emissions,
    sweep_types,
)
from dspectral.methods.hmm.chain import m_step
from dspectral.methods.hmm.decoding import StateDecoder, renumber_blocks
from dspectral.methods.hmm.expected_counts import ExpectedCounts
from dspectral.parameters import (
    MAX_READS,
    MAX_REAL,
    RandomState,
    check_integer,
    check_option,
    check_real,
    resolve_seed,
)
from dspectral.registry import register_class
from dspectral.types import CheckpointPath, Doubles, Int32s, Int64s

N_CANDIDATES = 300
"""Number of most frequent words among which anchors are selected."""
MAX_ROUNDS = 5
"""Maximum number of rounds that select each anchor again, given the others; none for "published"."""
N_TRANSITION_EM_ITER = 10
"""Number of EM passes for the transitions only, for "published"."""


@register_class({"membership_": "* anchors_", "model_.emission": "* anchors_", "model_.transition": "k k"})
class AnchorHMM(StateDecoder):
    """Hidden Markov model in which each state has an anchor: a word that no other state emits.

    The context distribution of a word is a mixture of those of the states; that of an anchor equals that of its state.
    Anchors are therefore corners of the convex hull of the word points, and convex coefficients of the other words
    are ``p(h | x)``. Emissions follow by Bayes' rule, transitions from counts of adjacent words. Exchange sweeps can
    then assign each other word to the single state that best explains its neighbors and spelling.

    Parameters
    ----------
    n_states : int, default=12
        Number of hidden states.
    anchors : sequence of str or None, default=None
        Anchors of the first states; the others are selected.
    spelling : float, default=0.3
        Weight of spelling relative to contexts; above 0 rare words are merged by spelling, 0 uses contexts only.
    min_count : int, default=8
        Rarer words are merged into ``"<?>"``, or into classes by spelling.
    n_sweeps : int, default=10
        Maximum number of exchange sweeps. With 0, ``p(h | x)`` are the convex coefficients.
    n_em_iter : int, default=0
        Number of final EM passes for all parameters.
    contexts : {"clusters", "published", "consistent"}, default="clusters"
        How points are computed from contexts: from counts of Brown clusters of neighbors; as in :meth:`as_published`;
        or as in :meth:`as_consistent`.
    random_state : int, RandomState, Generator or None, default=0
        Seed of clusters, singular vectors and random projections.

    Attributes
    ----------
    anchors_ : list of str
        Anchor of each state.
    words_ : list of str
        Words with a type of their own, most frequent first, after ``"<?>"``.
    spelling_classes_ : list of str
        Types of rare words: ``"<a*ing>"`` stands for lower-case words that end in "ing".
    membership_ : ndarray of float64, shape (n_types, n_states)
        ``p(h | x)`` of ``words_``, then ``spelling_classes_``, before any EM.
    model_ : HiddenMarkov
        Parameters over the same types. Lengths are not modeled: ``final`` is ones.
    log_likelihoods_ : list of float
        Log-likelihood of all sentences before each pass of EM, in nats.
    n_passes_ : int
        Number of passes over the sentences: one plus those of EM.
    random_state_ : int
        Seed of the fit.

    Notes
    -----
    Memory: 260 bytes for each distinct pair of adjacent types, and ``n_types * (2 n_clusters + n_states)`` numbers.
    If the pairs exceed ``dspectral.memory-limit`` (1 GiB), they are counted in the store of the corpus, with the same
    result. Without a store a MemoryError is raised if the limit is set.

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

    def __init__(
        self,
        n_states: int = 12,
        *,
        anchors: Sequence[str] | None = None,
        spelling: float = 0.3,
        min_count: int = 8,
        n_sweeps: int = 10,
        n_em_iter: int = 0,
        contexts: Contexts = "clusters",
        random_state: RandomState = 0,
    ) -> None:
        self.n_states = n_states
        self.anchors = anchors
        self.spelling = spelling
        self.min_count = min_count
        self.n_sweeps = n_sweeps
        self.n_em_iter = n_em_iter
        self.contexts = contexts
        self.random_state = random_state

    @classmethod
    def as_published(cls, n_states: int = 12, **parameters: Any) -> Self:
        """Return an estimator with the options of Stratos, Collins and Hsu (2016).

        CCA of contexts, one selection of anchors, no merged words, no sweeps, and ten EM passes for the transitions.

        Parameters
        ----------
        n_states : int, default=12
            Number of hidden states.
        **parameters
            Other arguments of the constructor; they replace those of the preset.

        Returns
        -------
        AnchorHMM
            The estimator, not fitted.
        """
        return cls._without_merging("published", n_states, **parameters)

    @classmethod
    def as_consistent(cls, n_states: int = 12, **parameters: Any) -> Self:
        """Return an estimator with consistent options: it converges to the true model as the sample grows.

        Untransformed counts, SVD of contexts, no merged words, no sweeps. On real text the default is more accurate.

        Parameters
        ----------
        n_states : int, default=12
            Number of hidden states.
        **parameters
            Other arguments of the constructor; they replace those of the preset.

        Returns
        -------
        AnchorHMM
            The estimator, not fitted.
        """
        return cls._without_merging("consistent", n_states, **parameters)

    @classmethod
    def _without_merging(cls, contexts: Contexts, n_states: int, **parameters: Any) -> Self:
        return cls(n_states, **{"spelling": 0.0, "min_count": 1, "n_sweeps": 0, "contexts": contexts, **parameters})

    @tracked_fit
    def fit(self, X: HoldsSentences | TokenLists, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Count neighbors, select anchors, and estimate the model.

        Parameters
        ----------
        X : corpus, or iterable of token lists
            Sentences of words; a corpus is read block by block, once and for each EM pass.
        y : ignored
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer types with a neighbor than states, an anchor has no type, or a parameter is out of range.
        MemoryError
            If ``dspectral.memory-limit`` is set, the pairs exceed it, and X is not a corpus in a store.
        """
        self._check_parameters()
        self.random_state_ = resolve_seed(self.random_state)
        corpus = as_corpus(X)
        types = WordTypes.from_counts(corpus.words, corpus.counts, self.min_count, by_spelling=self.spelling > 0)
        self.words_, self.spelling_classes_ = types.words, types.classes
        expect_passes(1 + self._n_fixed + self.n_em_iter)
        numbers, counts = types.get_types(corpus.words), types.counts(corpus)
        sentences = renumber_blocks(corpus.sentences, numbers)
        location = getattr(corpus, "location", None)
        neighbor_counts = NeighborCounts(
            count_adjacent_pairs(sentences, counts, location=location, numbers=numbers), counts
        )
        self.n_passes_ = 1
        if not neighbor_counts.pairs.nnz:
            raise ValueError("X has no sentence of two or more words, but counts of neighbors need them")
        candidates, fixed_anchors = self._select_candidates(types, neighbor_counts.counts)
        features = types.features() if self.spelling else None
        # With one BLAS thread, sums and therefore anchors do not depend on the number of cores.
        with blas_in_one_thread():
            points = compute_word_points(
                neighbor_counts, features, self.contexts, self.n_states, self.spelling, self.random_state_
            )
            rounds = 0 if self.contexts == "published" else MAX_ROUNDS
            anchors = find_anchors(points, candidates, self.n_states, fixed_anchors=fixed_anchors, reselect=rounds)
            membership = project_to_simplex(points, points[anchors])
        if self.n_sweeps:
            weights = self.spelling * neighbor_counts.counts
            labels = sweep_types(neighbor_counts.pairs, membership, anchors, features, weights, n_sweeps=self.n_sweeps)
            membership = np.eye(self.n_states)[labels]
        self.anchors_ = [(types.words + types.classes)[i] for i in anchors]
        self._set_model(neighbor_counts, membership)
        self._run_em(sentences, neighbor_counts)
        return self

    @property
    def _n_fixed(self) -> int:
        """Number of EM passes for the transitions only."""
        return N_TRANSITION_EM_ITER if self.contexts == "published" else 0

    def _lookup_types(self, tokens: Sequence[Hashable]) -> Int32s:
        return WordTypes(self.words_, self.spelling_classes_).get_types(cast("Sequence[str]", tokens))

    def _select_candidates(self, types: WordTypes, counts: Int64s) -> tuple[Int64s, list[int]]:
        """Return the types among which anchors are selected, and the types of the fixed anchors."""
        candidates = types.sort_by_frequency(counts)[:N_CANDIDATES]
        fixed_anchors = [types.get_own_type(word) for word in self.anchors or ()]
        if len(set(candidates.tolist()) | set(fixed_anchors)) < self.n_states:
            raise ValueError(
                f"n_states={self.n_states} must be at most {len(candidates)}, the number of candidate anchors (of the "
                f"{N_CANDIDATES} most frequent words): lower n_states or min_count={self.min_count}"
            )
        return candidates, fixed_anchors

    def _set_model(self, neighbor_counts: NeighborCounts, membership: Doubles) -> None:
        """Set the model by the method of moments."""
        counts = neighbor_counts.counts.astype(np.float64)
        emission, marginal = emission_from_membership(membership, counts)
        # A type without tokens ("<?>" without rare words) has no contexts: its membership is the marginal.
        self.membership_ = np.where(counts[:, None] > 0, membership, marginal)
        self.model_ = chain_from_moments(
            self.membership_, emission, neighbor_counts.pairs, neighbor_counts.first, prior=1.0
        )

    def _run_em(self, sentences: Blocks, neighbor_counts: NeighborCounts) -> None:
        """Run EM: first for the transitions alone, with emissions fixed, then for all parameters."""
        self.log_likelihoods_: list[float] = []
        n_fixed = self._n_fixed
        for step in range(n_fixed + self.n_em_iter):
            if step == n_fixed:
                emission = smooth_emissions(self.membership_, neighbor_counts.counts.astype(np.float64))
                self.model_ = self.model_._replace(emission=emission)
            summarize_block = partial(ExpectedCounts.from_block, model=self.model_)
            expected = summarize(sentences, summarize_block=summarize_block, name="expect")
            # Transitions from inverted moments are noisier than emissions: first passes update the transitions only.
            model = m_step(expected.counts, model_lengths=False)
            self.model_ = model._replace(emission=self.model_.emission) if step < n_fixed else model
            self.log_likelihoods_.append(expected.log_likelihood)
        self.n_passes_ += n_fixed + self.n_em_iter

    def _check_parameters(self) -> None:
        check_integer("n_states", self.n_states, at_least=1)
        check_integer("min_count", self.min_count, at_least=1)
        check_integer("n_sweeps", self.n_sweeps, at_least=0)
        check_integer("n_em_iter", self.n_em_iter, at_least=0, at_most=MAX_READS)
        check_real("spelling", self.spelling, at_least=0.0, at_most=MAX_REAL)
        if self.anchors is not None and not isinstance(self.anchors, list | tuple):
            raise TypeError(f"anchors={self.anchors!r:.60} must be a list of words or None")
        check_option("contexts", self.contexts, get_args(Contexts))
