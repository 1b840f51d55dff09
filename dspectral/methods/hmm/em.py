"""Hidden Markov model fitted by EM out of core: the baseline of the spectral models."""

from functools import partial
from typing import Self

import numpy as np

from dspectral.engine import expect_passes, summarize, tracked_fit
from dspectral.inputs.sequences import HoldsSentences, TokenLists, as_corpus
from dspectral.methods.hmm.chain import HiddenMarkov, m_step
from dspectral.methods.hmm.decoding import StateDecoder
from dspectral.methods.hmm.expected_counts import ExpectedCounts, has_converged
from dspectral.parameters import MAX_REAL, RandomState, check_integer, check_real, resolve_seed
from dspectral.registry import register_class
from dspectral.types import CheckpointPath, Int64s


@register_class({"words_": "t", "model_.transition": "k k"})
class EMHMM(StateDecoder):
    """Hidden Markov model by expectation maximization (Baum-Welch), one pass over the corpus per iteration.

    Parameters
    ----------
    n_states : int, default=12
        Number of hidden states.
    n_iter : int, default=100
        Maximum number of passes.
    min_count : int, default=1
        Rarer and out-of-vocabulary words become one type, ``"<?>"``.
    smoothing : float, default=0.0
        Pseudocount of each type in each state; above 0 no word makes a sentence impossible.
    tol : float, default=1e-5
        EM stops when a pass increases the log-likelihood by less than this fraction of it.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the random initial probabilities.

    Attributes
    ----------
    words_ : list of str
        Word types, most frequent first, after ``"<?>"``.
    model_ : HiddenMarkov
        Parameters. Lengths are not modeled: ``final`` is ones.
    log_likelihoods_ : list of float
        Log-likelihood of all sentences before each pass, in nats.
    n_passes_ : int
        Number of passes over the sentences.
    random_state_ : int
        Seed of the fit.

    Notes
    -----
    Memory: ``8 n_types n_states`` bytes for a summary. Time: ``O(n_tokens n_states^2)`` for a pass.

    References
    ----------
    Baum, Petrie, Soules and Weiss 1970; Rabiner 1989.

    Examples
    --------
    >>> hmm = EMHMM(2, n_iter=20).fit([["a", "x", "a", "y"], ["b", "x"], ["a", "y", "b", "x"]] * 5)
    >>> states = hmm.predict([["a", "x", "b", "y"]])[0]
    >>> bool(states[0] == states[2] != states[1] == states[3])
    True
    """

    def __init__(
        self,
        n_states: int = 12,
        *,
        n_iter: int = 100,
        min_count: int = 1,
        smoothing: float = 0.0,
        tol: float = 1e-5,
        random_state: RandomState = 0,
    ) -> None:
        self.n_states = n_states
        self.n_iter = n_iter
        self.min_count = min_count
        self.smoothing = smoothing
        self.tol = tol
        self.random_state = random_state

    @tracked_fit
    def fit(self, X: HoldsSentences | TokenLists, y: object = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Learn from sentences.

        Parameters
        ----------
        X : corpus, or iterable of token lists
            Sentences of words; a corpus is read block by block in each pass.
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
            If there is no token, or a parameter is out of range.
        """
        for name, at_most in (("n_states", 10**4), ("n_iter", None), ("min_count", None)):
            check_integer(name, getattr(self, name), at_least=1, at_most=at_most)
        check_real("smoothing", self.smoothing, at_least=0.0, at_most=MAX_REAL)
        check_real("tol", self.tol, at_least=-MAX_REAL, at_most=MAX_REAL)
        self.random_state_ = resolve_seed(self.random_state)
        corpus = as_corpus(X, min_count=self.min_count)
        self.words_ = list(corpus.words)
        self.model_ = self._draw_start(np.asarray(corpus.counts))
        self.log_likelihoods_: list[float] = []
        expect_passes(self.n_iter)  # at most: EM may converge before
        # Baum-Welch: each pass sums p(h_t | x) and p(h_t, h_{t+1} | x) over all blocks (E-step), and normalizes the
        # sums (M-step). The pass also returns the likelihood of the model that it started from.
        for _ in range(self.n_iter):
            summarize_block = partial(ExpectedCounts.from_block, model=self.model_)
            expected = summarize(corpus.sentences, summarize_block=summarize_block, name="expect")
            self.model_ = m_step(expected.counts, smoothing=self.smoothing, model_lengths=False)
            self.log_likelihoods_.append(expected.log_likelihood)
            if has_converged(self.log_likelihoods_, float(self.tol)):
                break
        self.n_passes_ = len(self.log_likelihoods_)
        return self

    def _draw_start(self, counts: Int64s) -> HiddenMarkov:
        """Return random initial parameters, emissions around the word frequencies."""
        # Equal states are a fixed point of EM. Normalized exponential draws are uniform on the simplex; adding 1 keeps
        # words without tokens possible.
        rng = np.random.default_rng(self.random_state_)
        n = self.n_states
        emission = (counts[:, None] + 1.0) * rng.standard_exponential((len(counts), n))
        # Lengths are not modeled: m_step ignores the zero counts of ends.
        start = HiddenMarkov(rng.standard_exponential(n), rng.standard_exponential((n, n)), emission, np.zeros(n))
        return m_step(start, model_lengths=False)
