"""The plain hidden Markov model, fitted by EM out of core: the baseline of the spectral ones."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import summarize
from dspectral.inputs.sequences import as_corpus, encode
from dspectral.methods.hmm.expected_counts import ExpectedCounts
from dspectral.methods.hmm.inference import HiddenMarkov, maximized, smooth, viterbi
from dspectral.registry import saved
from dspectral.types import Sentences


@saved
class EMHMM(BaseEstimator):
    """Hidden Markov model by expectation maximisation (Baum-Welch), one pass over the corpus an iteration.

    Parameters
    ----------
    n_states : int
    n_iter : int
        Passes at most.
    tol : float
        It ends when a pass raises the log-likelihood by less than this share of it.
    smoothing : float
        Added to each type's expected count in each state. With 0, no pass lowers the likelihood.
    min_count : int
        Rarer words become one type, ``"<?>"``, as unseen ones do.
    decoding : {"posterior", "viterbi"}
        The most probable state of each token, or the most probable path.
    fan_in : int
    random_state : int
        Of the start: all probabilities drawn at random.

    Attributes
    ----------
    words_ : list of str
    model_ : HiddenMarkov
        Without ends: ``final`` is ones.
    log_likelihoods_ : list of float
        Before each pass.
    n_passes_ : int

    Notes
    -----
    Memory: ``8 n_types n_states`` bytes a summary; it does not depend on the number of sentences.

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
        tol: float = 1e-5,
        smoothing: float = 0.0,
        min_count: int = 1,
        decoding: Literal["posterior", "viterbi"] = "posterior",
        fan_in: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_states = n_states
        self.n_iter = n_iter
        self.tol = tol
        self.smoothing = smoothing
        self.min_count = min_count
        self.decoding = decoding
        self.fan_in = fan_in
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from sentences.

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
            If there is no token, or a parameter is out of range.
        """
        if self.n_states < 1 or self.n_iter < 1:
            raise ValueError(
                f"n_states is {self.n_states} and n_iter {self.n_iter}, but each must be at least 1"
            )
        checked_decoding(self.decoding)
        corpus = as_corpus(X, min_count=self.min_count)
        self.words_ = list(corpus.words)
        self.model_ = self._start(np.asarray(corpus.counts))
        self.log_likelihoods_: list[float] = []
        for _ in range(self.n_iter):
            of = partial(ExpectedCounts.of, model=self.model_)
            found = summarize(corpus.sentences, of=of, fan_in=self.fan_in, name="expect")
            self.model_ = maximized(found.counts, smoothing=self.smoothing, lengths=False)
            before = self.log_likelihoods_[-1:]
            self.log_likelihoods_.append(found.log_likelihood)
            if before and found.log_likelihood - before[0] < self.tol * abs(found.log_likelihood):
                break
        self.n_passes_ = len(self.log_likelihoods_)
        return self

    def predict(self, X: Sequence[Sequence[str]]) -> list[NDArray[np.integer[Any]]]:
        """Return the state of each token of each sentence; unseen words are ``"<?>"``."""
        check_is_fitted(self)
        sentences = encode(X, self.words_)
        return list(np.split(self.states(sentences), sentences.offsets[1:-1])) if len(X) else []

    def states(self, sentences: Sentences) -> NDArray[np.integer[Any]]:
        """Return the states of a block of numbered tokens, shape (n_tokens,)."""
        check_is_fitted(self)
        if self.decoding == "viterbi":
            return viterbi(sentences, self.model_).states
        return np.asarray(np.argmax(smooth(sentences, self.model_).posterior, axis=1))

    def _start(self, counts: NDArray[np.int64]) -> HiddenMarkov:
        rng = np.random.default_rng(self.random_state)
        n = self.n_states
        emission = (counts[:, None] + 1.0) * rng.standard_exponential((len(counts), n))
        start = HiddenMarkov(
            rng.standard_exponential(n), rng.standard_exponential((n, n)), emission, np.zeros(n)
        )
        return maximized(start, lengths=False)


def checked_decoding(decoding: str) -> None:
    """Raise a ValueError if the name is not known."""
    if decoding not in ("posterior", "viterbi"):
        raise ValueError(f"decoding is {decoding!r}, but it must be 'posterior' or 'viterbi'")
