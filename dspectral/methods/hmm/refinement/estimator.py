"""Refinement hidden Markov model: sequence labeling with latent refinements of labels."""

from collections.abc import Hashable
from functools import partial
from typing import Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dspectral._compiled import read_only
from dspectral.engine import expect_passes, summarize, tracked_fit
from dspectral.inputs.sequences import HoldsLabeledSentences, TokenLists, as_labeled_corpus
from dspectral.methods.hmm.chain import m_step
from dspectral.methods.hmm.decoding import ChainDecoder, CorpusLike, apply_to_blocks
from dspectral.methods.hmm.expected_counts import ExpectedCounts, has_converged
from dspectral.methods.hmm.inference import compute_posteriors
from dspectral.methods.hmm.refinement.operators import Operators
from dspectral.methods.hmm.refinement.recursions import decode_block
from dspectral.methods.hmm.refinement.starts import (
    RefinementRecipe,
    mix_refinements,
    start_at_random,
    start_with_moments,
)
from dspectral.parameters import (
    MAX_READS,
    MAX_REAL,
    RandomState,
    check_integer,
    check_option,
    check_real,
    resolve_recipe,
    resolve_seed,
)
from dspectral.registry import register_class
from dspectral.types import AnyArray, CheckpointPath, Doubles, Int32s, Int64s, LabeledSentences, Sentences, check_ids

MAX_REFINEMENTS = 512
"""Maximum number of refinements of a label."""

N_EM_AFTER_MOMENTS = 3
"""Default number of EM passes after the method of moments."""


@register_class(
    {"words_": "t", "n_refinements_": "labels_", "operators_.emission": "labels_ t m m", "correlations_": "labels_ *"}
)
class RefinementHMM(ChainDecoder):
    """Label each token of a sequence by a hidden Markov model with latent refinements of each label.

    ``p(a, h, x) = pi(a_1, h_1) prod t(a', h' | a, h) prod o(x | a, h) f(stop | a, h)``: training data has the labels a,
    never the refinements h. One refinement is the supervised hidden Markov model.

    Parameters
    ----------
    n_refinements : int, default=8
        Number m of refinements of each label; fewer where the moments have a lower rank: ``n_refinements_``.
    start : {"spectral", "random"}, default="spectral"
        Initial parameters: consistent estimates from moments in two passes, or random ones.
    n_em_iter : int or "auto", default="auto"
        Maximum number of EM passes. ``"auto"`` is 3, or 0 for a single refinement or decoding by operators. EM starts
        from parameters mixed with 5 % of their means over each label, since it never changes a zero.
    smoothing : float, default=0.1
        Pseudocount of each type in each refinement.
    recipe : RefinementRecipe or None, default=None
        Further options; None is ``RefinementRecipe()``.
    random_state : int, RandomState, Generator or None, default=0
        Seed of random starts and of the random vectors of types.

    Attributes
    ----------
    words_ : list
        Types of tokens; type 0 stands for out-of-vocabulary tokens.
    labels_ : list
        Labels in order of first appearance; ``classes_`` is the same as an array.
    n_refinements_ : ndarray of int64, shape (n_labels,)
        Number of refinements of each label.
    model_ : HiddenMarkov
        Parameters; states are the refinements in label order, the most frequent of a label first.
    bounds_ : ndarray of int64, shape (n_labels + 1,)
        Label ``a`` has the states ``bounds_[a]``, ..., ``bounds_[a + 1] - 1``.
    operators_ : Operators or None
        Observable operators from the moments; None after a random start.
    correlations_ : ndarray of float64, shape (n_labels, m - 1), or None
        Canonical correlations of past and future within each label; None after a random start.
    log_likelihoods_ : list of float
        Log-likelihood of tokens and labels before each EM pass, in nats.
    n_passes_ : int
        Number of passes: two for the moments (one for a single refinement), none for a random start, and one for each
        EM pass.
    random_state_ : int
        Seed of the fit.

    Notes
    -----
    The tag "classifier" is not set: stratified cross-validation rejects lists of different lengths.

    Memory: for the first pass ``n_labels (2 width + 1)^2`` numbers, where a view has ``n_dimensions + n_labels + 1``
    numbers for each ``memory`` and ``n_dimensions + 1`` for each ``run_memory``; for the second ``n_labels (n_types +
    n_labels) m^2``; for EM ``n_types n_labels m``.

    The paper uses hand-crafted views, this class decaying sums. It also recovers parameters from the operators, whose
    probabilities are often negative for little data.

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

    words_: list[Hashable]
    labels_: list[Hashable]
    operators_: Operators | None
    _tokens_are_strings = False

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

    @tracked_fit
    def fit(
        self,
        X: HoldsLabeledSentences | TokenLists,
        y: TokenLists | None = None,
        *,
        checkpoints: CheckpointPath = None,
    ) -> Self:
        """Learn from labeled sequences.

        Parameters
        ----------
        X : iterable of sequences of hashable tokens, or an object with ``words``, ``labels`` and ``sentences``
            Labeled sequences; the blocks of an object are read once in each pass.
        y : iterable of sequences of hashable labels, optional
            One label for each token; not needed if X has labels.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, there is no token, or the lengths of X and y differ.
        """
        recipe, n_em_iter = self._check_parameters()
        seed = self.random_state_ = resolve_seed(self.random_state)
        corpus = as_labeled_corpus(X, y)
        self.words_, self.labels_ = corpus.words, corpus.labels
        n_first = (1 if self.n_refinements == 1 else 2) if self.start == "spectral" else 0
        expect_passes(n_first + n_em_iter)  # at most: EM may converge before
        if self.start == "spectral":
            start = start_with_moments(
                corpus, self.n_refinements, recipe=recipe, smoothing=self.smoothing, random_state=seed
            )
        else:
            start = start_at_random(corpus, self.n_refinements, random_state=seed)
        self.model_, self.n_refinements_, self.operators_, self.correlations_ = start[:4]
        self.n_passes_ = start.n_passes
        self.bounds_ = np.concatenate([[0], np.cumsum(self.n_refinements_)])
        self.log_likelihoods_: list[float] = []
        # EM never changes a zero; only moments have zeros.
        if n_em_iter and self.start == "spectral":
            self.model_ = mix_refinements(self.model_, self.bounds_)
        # EM with known labels: each token is in one of the refinements of its label.
        for _ in range(n_em_iter):
            summarize_block = partial(ExpectedCounts.from_block, model=self.model_, bounds=self.bounds_)
            expected = summarize(corpus.sentences, summarize_block=summarize_block, name="expect")
            self.model_ = m_step(expected.counts, smoothing=self.smoothing)
            self.n_passes_ += 1
            self.log_likelihoods_.append(expected.log_likelihood)
            if has_converged(self.log_likelihoods_, float(recipe.tol)):
                break
        return self

    def _check_parameters(self) -> tuple[RefinementRecipe, int]:
        """Check the parameters; return the recipe and the maximum number of EM passes."""
        recipe, n_em_iter = self._recipe, self.n_em_iter
        check_integer("n_refinements", self.n_refinements, at_least=1, at_most=MAX_REFINEMENTS)
        check_option("start", self.start, ("spectral", "random"))
        check_real("smoothing", self.smoothing, at_least=0.0, at_most=MAX_REAL)
        recipe.check()
        if n_em_iter == "auto":
            n_em_iter = 0 if self.n_refinements == 1 or recipe.decoding == "operators" else N_EM_AFTER_MOMENTS
        n_em_iter = check_integer("n_em_iter", n_em_iter, at_least=0, at_most=MAX_READS)
        if recipe.decoding == "operators" and (n_em_iter or self.start == "random"):
            raise ValueError(
                f"decoding='operators' needs moments without EM, but start={self.start!r}, n_em_iter={n_em_iter}: "
                "set start='spectral' and n_em_iter=0"
            )
        return recipe, n_em_iter

    @property
    def _recipe(self) -> RefinementRecipe:
        return resolve_recipe(self.recipe, RefinementRecipe)

    @property
    def classes_(self) -> AnyArray:
        """Array of the labels, shape (n_labels,): the columns of :meth:`predict_proba`."""
        check_is_fitted(self)
        kinds = {type(label) for label in self.labels_}
        if len(kinds) == 1 and kinds <= {str, int, bool}:
            return np.array(self.labels_)
        # np.array would make a matrix of tuples.
        names = np.empty(len(self.labels_), dtype=object)
        names[:] = self.labels_
        return names

    def predict(self, X: CorpusLike | TokenLists) -> list[list[Hashable]]:
        """Return the label of highest posterior probability of each token, in lists like X.

        Parameters
        ----------
        X : iterable of sequences of tokens, or an object with ``words`` and ``sentences``
            Sequences to label. Out-of-vocabulary tokens are type 0.

        Returns
        -------
        list of lists
            One label for each token.
        """
        return [[self.labels_[a] for a in share.argmax(axis=1)] for share in self.predict_proba(X)]

    def predict_proba(self, X: CorpusLike | TokenLists) -> list[Doubles]:
        """Return the probability of each label at each token of each sequence, ``p(a_i = a | x)``.

        Parameters
        ----------
        X : iterable of sequences of tokens, or an object with ``words`` and ``sentences``
            Sequences as for :meth:`predict`.

        Returns
        -------
        list of ndarray of float64, shape (n_tokens_i, n_labels)
            One array for each sequence, its columns in the order of ``classes_``; rows sum to 1.
        """
        return self._map_sentences(X, self.label_shares)

    def decode(self, X: CorpusLike | TokenLists) -> tuple[Doubles, list[list[Hashable]]]:
        """Return the labels on the most probable path of refinements through each sequence.

        Parameters
        ----------
        X : iterable of sequences of tokens, or an object with ``words`` and ``sentences``
            Sequences as for :meth:`predict`.

        Returns
        -------
        log_prob : ndarray of float64, shape (n_sequences,)
            Log-probability of each sequence and its path together, minus infinity where it is impossible.
        labels : list of lists
            One label for each token, from the parameters for any ``decoding`` of the recipe.
        """
        log_prob, paths = self._best_paths(X)
        owners = np.repeat(np.arange(len(self.labels_)), self.n_refinements_)
        return log_prob, [[self.labels_[a] for a in owners[path]] for path in paths]

    def score(self, X: HoldsLabeledSentences | TokenLists, y: TokenLists | None = None) -> float:
        """Return the accuracy: the fraction of tokens with the correct label.

        Parameters
        ----------
        X : iterable of sequences of tokens, or an object with ``words``, ``labels`` and ``sentences``
            Sequences as for :meth:`predict`.
        y : iterable of sequences of labels, optional
            True labels; not needed if X has them.

        Returns
        -------
        float
            Accuracy between 0 and 1.

        Raises
        ------
        ValueError
            If there is no token, lengths differ or labels are missing.
        """
        check_is_fitted(self)
        corpus = as_labeled_corpus(X, y)
        # Labels outside the training data are -1, which never equals a prediction.
        label_numbers = {label: a for a, label in enumerate(self.labels_)}
        labels = np.array([label_numbers.get(label, -1) for label in corpus.labels])
        count = partial(self._count_correct, types=self._lookup_types(corpus.words), labels=labels)
        n_correct, n_tokens = np.sum(apply_to_blocks(corpus.sentences, count), axis=0).tolist()
        return float(n_correct / n_tokens)

    def _count_correct(self, block: LabeledSentences, *, types: Int32s, labels: Int64s) -> tuple[int, int]:
        predicted = self.label_shares(Sentences(types[block.ids], block.offsets)).argmax(axis=1)
        return int(np.sum(predicted == labels[block.labels])), len(block.ids)

    def label_shares(self, sentences: Sentences) -> Doubles:
        """Return the probability of each label at each token of a block.

        Parameters
        ----------
        sentences : Sentences
            A block of ids, indices of ``words_``, as returned by ``encode_sentences``.

        Returns
        -------
        ndarray of float64, shape (n_tokens, n_labels)
            ``p(a_i = a | x)``; rows sum to 1.
        """
        check_is_fitted(self)
        if self._recipe.decoding == "parameters":
            posterior = compute_posteriors(sentences, self.model_).posterior
            # The states of a label are consecutive columns, at least one, so that reduceat sums them.
            return np.add.reduceat(posterior, self.bounds_[:-1], axis=1)
        check_ids(sentences.ids, len(self.words_))
        out = np.empty((len(sentences.ids), len(self.labels_)))
        chain = Operators(*(read_only(part) for part in self.operators_ or ()))
        decode_block(read_only(sentences.ids), read_only(sentences.offsets), chain, out)
        return out
