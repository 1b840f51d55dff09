"""Labels of sequences by a hidden Markov model whose labels have latent refinements."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral._compiled import read_only
from dspectral.engine import summarize
from dspectral.inputs.sequences import LabelledCorpus, as_labelled, encode
from dspectral.methods.hmm.expected_counts import ExpectedCounts
from dspectral.methods.hmm.inference import HiddenMarkov, checked_ids, maximized, smooth
from dspectral.methods.hmm.refinement.moments import OperatorMoments, ViewMoments, Views
from dspectral.methods.hmm.refinement.operators import Operators, operators, projections, recovered
from dspectral.methods.hmm.refinement.recursions import decode_block
from dspectral.registry import saved
from dspectral.types import Sentences

MIXING = 0.05
"""Share of the mean over its label that each refinement gets before EM."""


@saved
class RefinementHMM(BaseEstimator):
    """Label each token of a sequence; within a label, the model has hidden refinements that it learns.

    ``p(a, h, x) = pi(a_1, h_1) prod t(a', h' | a, h) prod o(x | a, h) f(stop | a, h)``: the labels a are there when
    it is fitted, the refinements h never. With one refinement it is the supervised hidden Markov model.

    Parameters
    ----------
    n_refinements : int
        m, for each label. Labels whose moments tell fewer apart, or that have fewer types of tokens, get fewer:
        ``n_refinements_``.
    start : {"spectral", "random"}
        Moments in two passes, consistent and without a random start; or the random start of plain EM.
    decoding : {"parameters", "operators"}
        Whether labels are found with the parameters recovered from the moments (all positive), or by chain
        products of observable operators, whose negative shares are set to 0 and counted. Operators allow no
        ``polish``.
    polish : int
        EM passes after the start, at most. Moments are first mixed with 5 % of their means over each label's
        refinements, since what is zero would stay zero.
    tol : float
        EM ends when a pass raises the log-likelihood by less than this share of it.
    smoothing : float
        Added to each type's count in each refinement.
    memory, run_memory : sequence of float
        How the sums that stand for past and future decay from token to token: over the whole sequence, and ending
        where the label changes. At least one in all.
    n_dimensions : int
        Types of tokens are summed as random vectors of this length, if there are more types.
    regularization : float
        Of the canonical correlations between past and future.
    fan_in : int
    random_state : int

    Attributes
    ----------
    words_ : list
        The types; 0 stands for tokens that were not there.
    labels_ : list
    n_refinements_ : ndarray of int64, shape (n_labels,)
    model_ : HiddenMarkov
        Its states are the refinements, one label's after the other's; within a label the heaviest comes first.
    bounds_ : ndarray of int64, shape (n_labels + 1,)
        Label ``a`` has the states ``bounds_[a]``, ..., ``bounds_[a + 1] - 1``.
    operators_ : Operators
        From the moments; None after a random start.
    correlations_ : ndarray of float64, shape (n_labels, m - 1)
        Canonical correlations of past and future within each label; None after a random start.
    n_negative_ : int
        Expected counts that came out of the moments negative, and were set to 0.
    log_likelihoods_ : list of float
        Of tokens and labels, before each EM pass.
    n_passes_ : int
        Two for the moments (one for a single refinement), none for a random start, and one for each EM pass.

    Notes
    -----
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
        n_refinements: int = 4,
        *,
        start: Literal["spectral", "random"] = "spectral",
        decoding: Literal["parameters", "operators"] = "parameters",
        polish: int = 0,
        tol: float = 1e-5,
        smoothing: float = 0.1,
        memory: Sequence[float] = (0.5,),
        run_memory: Sequence[float] = (0.9,),
        n_dimensions: int = 12,
        regularization: float = 1e-2,
        fan_in: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_refinements = n_refinements
        self.start = start
        self.decoding = decoding
        self.polish = polish
        self.tol = tol
        self.smoothing = smoothing
        self.memory = memory
        self.run_memory = run_memory
        self.n_dimensions = n_dimensions
        self.regularization = regularization
        self.fan_in = fan_in
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labelled sequences.

        Parameters
        ----------
        X : list of sequences of hashable tokens, or an object with ``words``, ``labels`` and ``sentences``
            The latter a stream of :class:`~dspectral.types.LabelledSentences`; y is then not needed.
        y : list of sequences of hashable labels

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of range, there is no token, or lengths differ.
        TypeError
            If a token or a label is not hashable.
        """
        self._check()
        corpus = as_labelled(X, y)
        self.words_, self.labels_ = corpus.words, corpus.labels
        self.n_negative_, self.n_passes_ = 0, 0
        self.operators_: Any = None
        self.correlations_: Any = None
        if self.start == "spectral":
            self._start_with_moments(corpus)
        else:
            self._start_at_random()
        self._polish(corpus)
        return self

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """Return the most probable label of each token, each by itself, in lists like X.

        Parameters
        ----------
        X : list of sequences of tokens
            Tokens that were not there when it was fitted say nothing.
        """
        return [[self.labels_[a] for a in share.argmax(axis=1)] for share in self.predict_proba(X)]

    def predict_proba(self, X: Sequence[Any]) -> list[NDArray[np.float64]]:
        """Return ``p(a_i = a | x)`` for each token of each sequence, shape (n_i, n_labels)."""
        check_is_fitted(self)
        sentences = encode(X, self.words_)
        return list(np.split(self.label_shares(sentences), sentences.offsets[1:-1])) if len(X) else []

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Return the share of tokens whose label is right."""
        found = [label for labels in self.predict(X) for label in labels]
        true = [label for labels in y for label in labels]
        return float(np.mean([a == b for a, b in zip(found, true, strict=True)]))

    def label_shares(self, sentences: Sentences) -> NDArray[np.float64]:
        """Decode a block of numbered tokens.

        Parameters
        ----------
        sentences : Sentences
            Ids are places in ``words_``.

        Returns
        -------
        ndarray of float64, shape (n_tokens, n_labels)
            ``p(a_i = a | x)``; rows sum to 1.

        Notes
        -----
        ``O(n_tokens (n_labels m)^2)`` time.
        """
        return self.decode(sentences)[0]

    def decode(self, sentences: Sentences) -> tuple[NDArray[np.float64], int]:
        """Return what :meth:`label_shares` does, and how many shares came out negative and were set to 0."""
        check_is_fitted(self)
        if self.decoding == "parameters":
            posterior = smooth(sentences, self.model_).posterior
            return np.add.reduceat(posterior, self.bounds_[:-1], axis=1), 0
        checked_ids(sentences, len(self.words_))
        out = np.empty((len(sentences.ids), len(self.labels_)))
        chain = Operators(*(read_only(part) for part in self.operators_))
        n_negative = decode_block(read_only(sentences.ids), read_only(sentences.offsets), chain, out)
        return out, int(n_negative)

    def _check(self) -> None:
        if self.n_refinements < 1:
            raise ValueError(f"n_refinements is {self.n_refinements}, but must be at least 1")
        for name, value, known in (
            ("start", self.start, ("spectral", "random")),
            ("decoding", self.decoding, ("parameters", "operators")),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}, but it must be {known[0]!r} or {known[1]!r}")
        decays = [*self.memory, *self.run_memory]
        if not decays or not all(0.0 <= decay <= 1.0 for decay in decays):
            raise ValueError(
                f"memory and run_memory are {decays}, but must hold at least one decay from 0 to 1"
            )
        if self.decoding == "operators" and (self.polish or self.start == "random"):
            raise ValueError(
                "decoding is 'operators', which only moments give: set start='spectral' and polish=0"
            )

    def _start_with_moments(self, corpus: LabelledCorpus) -> None:
        views, m = self._views(len(corpus.words), len(corpus.labels)), self.n_refinements
        if m == 1:  # nothing to tell apart: the views are nothing but their constant
            views = views._replace(memory=np.empty(0), run_memory=np.empty(0))
            found = projections(np.zeros((views.n_labels, 1, 1)), m)
        else:
            of_views = partial(ViewMoments.of, views=views)
            gram = summarize(corpus.sentences, of=of_views, fan_in=self.fan_in, name="views").gram
            found = projections(gram, m, regularization=self.regularization)
        of = partial(OperatorMoments.of, views=views, past=found.past, future=found.future)
        moments = summarize(corpus.sentences, of=of, fan_in=self.fan_in, name="moments")
        n_types = np.sum(moments.joint[:, :, 0, 0] > 0, axis=1)
        self.n_refinements_ = np.clip(n_types, 1, found.n_refinements)
        self.operators_ = operators(*moments, self.n_refinements_)
        shares = recovered(*moments, self.n_refinements_)
        self.model_, self.n_negative_ = maximized(shares.counts, smoothing=self.smoothing), shares.n_negative
        self.correlations_, self.n_passes_ = found.correlations, 1 + (m > 1)
        self.bounds_ = np.concatenate([[0], np.cumsum(self.n_refinements_)])

    def _start_at_random(self) -> None:
        rng = np.random.default_rng(self.random_state)
        self.n_refinements_ = np.full(len(self.labels_), self.n_refinements)
        self.bounds_ = np.concatenate([[0], np.cumsum(self.n_refinements_)])
        n = int(self.bounds_[-1])
        shapes = HiddenMarkov(*(np.empty(0),) * 4)._replace(
            initial=np.ones(n),
            transition=np.ones((n, n)),
            emission=np.ones((len(self.words_), n)),
            final=np.ones(n),
        )
        self.model_ = maximized(HiddenMarkov(*(rng.standard_exponential(part.shape) for part in shapes)))

    def _polish(self, corpus: LabelledCorpus) -> None:
        self.log_likelihoods_: list[float] = []
        if self.polish and self.start == "spectral":
            self.model_ = mixed(self.model_, self.bounds_)
        for _ in range(self.polish):
            of = partial(ExpectedCounts.of, model=self.model_, bounds=self.bounds_)
            found = summarize(corpus.sentences, of=of, fan_in=self.fan_in, name="expect")
            self.model_ = maximized(found.counts, smoothing=self.smoothing)
            self.n_passes_ += 1
            before = self.log_likelihoods_[-1:]
            self.log_likelihoods_.append(found.log_likelihood)
            if before and found.log_likelihood - before[0] < self.tol * abs(found.log_likelihood):
                return

    def _views(self, n_types: int, n_labels: int) -> Views:
        vectors = np.eye(n_types)
        if n_types > self.n_dimensions:
            rng = np.random.default_rng(self.random_state)
            vectors = rng.standard_normal((n_types, self.n_dimensions))
        return Views(vectors, np.asarray(self.memory, float), np.asarray(self.run_memory, float), n_labels)


def mixed(model: HiddenMarkov, bounds: NDArray[np.int64]) -> HiddenMarkov:
    """Mix what differs between a label's refinements with a little of its mean: EM never brings back a zero."""
    initial, transition, emission = (np.array(part) for part in model[:3])
    for start, end in pairwise(bounds):
        for part in (initial, transition, emission):
            own = part[..., start:end]
            own += MIXING * (own.mean(axis=-1, keepdims=True) - own)
    return HiddenMarkov.of(initial, transition, emission, model.final)
