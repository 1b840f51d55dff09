"""Labels of sequences by a hidden Markov model whose labels have latent refinements."""

from functools import partial
from typing import Literal, Self

import numpy as np

from dspectral.engine import emits_events, expect_passes, summarize
from dspectral.inputs.parameters import RandomState, check_integer, check_option, check_real, resolve_seed
from dspectral.inputs.sequences import HoldsLabelledSentences, LabelledCorpus, TokenLists, as_labelled
from dspectral.methods.hmm.chain import m_step
from dspectral.methods.hmm.expected_counts import ExpectedCounts, has_converged
from dspectral.methods.hmm.refinement.labelling import LabelDecoder
from dspectral.methods.hmm.refinement.starts import (
    RefinementRecipe,
    mix_refinements,
    start_at_random,
    start_with_moments,
)
from dspectral.registry import saved

MOST_REFINEMENTS = 512
"""Each label has as many states, and every pair of them a number for each pair of labels."""

POLISH = 3
"""Passes of EM after the moments, where their number is not given."""


@saved
class RefinementHMM(LabelDecoder):
    """Label each token of a sequence; within a label, the model has hidden refinements that it learns.

    ``p(a, h, x) = pi(a_1, h_1) prod t(a', h' | a, h) prod o(x | a, h) f(stop | a, h)``: the labels a are known in
    training, the refinements h never. With one refinement it is the supervised hidden Markov model.

    Parameters
    ----------
    n_refinements : int, default=8
        Number m of refinements of each label. Labels whose moments tell fewer apart, or that have fewer types of
        tokens, get fewer: ``n_refinements_``.
    start : {"spectral", "random"}, default="spectral"
        Moments in two passes, consistent and without a random start; or the random start of plain EM.
    n_em_iter : int or "auto", default="auto"
        Largest number of EM passes after the start; ``"auto"`` is 3, or 0 for a single refinement, whose counts need
        none, and where operators decode. Moments are first mixed with 5 % of their means over each
        label's refinements, since EM never changes a zero.
    smoothing : float, default=0.1
        Number added to each type's count in each refinement.
    recipe : RefinementRecipe or None, default=None
        Settings of the views of past and future, of decoding and of the end of EM; None takes
        ``RefinementRecipe()``. See :class:`~dspectral.RefinementRecipe`.
    random_state : int, RandomState, Generator or None, default=0
        Seed of random starts and of the random vectors of types.

    Attributes
    ----------
    words_ : list
        Types of tokens; type 0 stands for unknown ones.
    labels_ : list
        Labels by number, in the order of their first appearance; ``classes_`` is the same as an array.
    n_refinements_ : ndarray of int64, shape (n_labels,)
        Number of refinements of each label.
    model_ : HiddenMarkov
        Parameters. The states are the refinements, one label's after the other's; within a label the heaviest comes
        first.
    bounds_ : ndarray of int64, shape (n_labels + 1,)
        Label ``a`` has the states ``bounds_[a]``, ..., ``bounds_[a + 1] - 1``.
    operators_ : Operators or None
        Observable operators from the moments; None after a random start.
    correlations_ : ndarray of float64, shape (n_labels, m - 1), or None
        Canonical correlations of past and future within each label; None after a random start.
    n_negative_ : int
        Number of expected counts that came out of the moments negative, and were set to 0.
    log_likelihoods_ : list of float
        Log-likelihood of tokens and labels before each EM pass, in nats.
    n_passes_ : int
        Number of passes over the sequences: two for the moments (one for a single refinement), none for a random
        start, and one for each EM pass.
    random_state_ : int
        The seed that was used.

    Notes
    -----
    The estimator has ``classes_``, ``predict``, ``predict_proba`` and ``score`` of a classifier, for the tokens of
    sequences. scikit-learn's tag "classifier" is not set: with it, cross-validation stratifies by y and refuses lists
    of different lengths.

    Memory: for the first pass ``n_labels (2 width + 1)^2`` numbers, where a view has ``n_dimensions + n_labels +
    1`` numbers for each ``memory`` and ``n_dimensions + 1`` for each ``run_memory``; for the second ``n_labels
    (n_types + n_labels) m^2``; for EM ``n_types n_labels m``. It does not depend on the number of sequences.

    The paper's projections are of views chosen by hand; here they are decaying sums. Its estimator keeps the
    operators; here the three views are also decomposed, since operators from few frames have many negative shares.

    References
    ----------
    Stratos, Rush, Cohen and Collins 2013, "Spectral learning of refinement HMMs"; Hsu, Kakade and Zhang 2008;
    Anandkumar, Ge, Hsu, Kakade and Telgarsky 2014 (the decomposition of the third moment).

    Examples
    --------
    >>> X = [["a", "b", "c"], ["c", "a"], ["b"]] * 5
    >>> y = [["V", "K", "K"], ["K", "V"], ["K"]] * 5
    >>> RefinementHMM(1).fit(X, y).predict([["a", "c", "a"]])
    [['V', 'K', 'V']]
    """

    def __init__(
        self,
        n_refinements: int = 8,
        *,
        start: Literal["spectral", "random"] = "spectral",
        n_em_iter: int | Literal["auto"] = "auto",
        smoothing: float = 0.1,
        recipe: RefinementRecipe | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_refinements = n_refinements
        self.start = start
        self.n_em_iter = n_em_iter
        self.smoothing = smoothing
        self.recipe = recipe
        self.random_state = random_state

    @emits_events
    def fit(self, X: HoldsLabelledSentences | TokenLists, y: TokenLists | None = None) -> Self:
        """Learn from labeled sequences.

        Parameters
        ----------
        X : iterable of sequences of hashable tokens, or an object with ``words``, ``labels`` and ``sentences``
            Sequences; of an object, the blocks of :class:`~dspectral.types.LabelledSentences` are read in each pass.
        y : iterable of sequences of hashable labels, optional
            One label for each token; not needed if X has labels.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, there is no token, or lengths differ.
        TypeError
            If a parameter is of the wrong type, or a token or a label is not hashable.
        """
        self._check()
        self.random_state_ = resolve_seed(self.random_state)
        corpus = as_labelled(X, y)
        self.words_, self.labels_ = corpus.words, corpus.labels
        n_first = (1 if self.n_refinements == 1 else 2) if self.start == "spectral" else 0
        expect_passes(n_first + self._n_em_iter)  # at most: EM may converge before
        if self.start == "spectral":
            start = start_with_moments(
                corpus,
                self.n_refinements,
                recipe=self._recipe,
                smoothing=self.smoothing,
                random_state=self.random_state_,
            )
        else:
            start = start_at_random(corpus, self.n_refinements, random_state=self.random_state_)
        self.model_, self.n_refinements_, self.operators_, self.correlations_ = start[:4]
        self.n_negative_, self.n_passes_ = start.n_negative, start.n_passes
        self.bounds_ = np.concatenate([[0], np.cumsum(self.n_refinements_)])
        self._run_em(corpus)
        return self

    @property
    def _recipe(self) -> RefinementRecipe:
        return RefinementRecipe() if self.recipe is None else self.recipe

    @property
    def _n_em_iter(self) -> int:
        if self.n_em_iter != "auto":
            return self.n_em_iter
        return 0 if self.n_refinements == 1 or self._recipe.decoding == "operators" else POLISH

    def _check(self) -> None:
        check_integer("n_refinements", self.n_refinements, at_least=1, at_most=MOST_REFINEMENTS)
        check_option("start", self.start, ("spectral", "random"))
        if self.n_em_iter != "auto":
            check_integer("n_em_iter", self.n_em_iter, at_least=0)
        check_real("smoothing", self.smoothing, at_least=0.0)
        if self.recipe is not None and not isinstance(self.recipe, RefinementRecipe):
            raise TypeError(f"recipe is {self.recipe!r:.60}, but it must be a RefinementRecipe, or None")
        self._recipe.check()
        if self._recipe.decoding == "operators" and (self._n_em_iter or self.start == "random"):
            raise ValueError(
                "decoding is 'operators', which only moments give: set start='spectral' and n_em_iter=0"
            )

    def _run_em(self, corpus: LabelledCorpus) -> None:
        """Run EM with the labels known: each token is in one of the refinements of its label."""
        self.log_likelihoods_: list[float] = []
        # A random start has no zeros; moments have, and EM multiplies: what is 0 stays 0.
        if self._n_em_iter and self.start == "spectral":
            self.model_ = mix_refinements(self.model_, self.bounds_)
        for _ in range(self._n_em_iter):
            of = partial(ExpectedCounts.of, model=self.model_, bounds=self.bounds_)
            found = summarize(corpus.sentences, of=of, name="expect")
            self.model_ = m_step(found.counts, smoothing=self.smoothing)
            self.n_passes_ += 1
            self.log_likelihoods_.append(found.log_likelihood)
            if has_converged(self.log_likelihoods_, self._recipe.tol):
                return
