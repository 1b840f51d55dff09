"""Base classes of fitted hidden Markov models: states, posteriors, paths and scores of sentences."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import Blocks, run_tasks, summarize
from dspectral.inputs.rows import RunPlanMixin
from dspectral.inputs.sequences import (
    HoldsLabeledSentences,
    HoldsSentences,
    TokenLists,
    as_memory_blocks,
    as_python_values,
    as_token_lists,
    encode_sentences,
)
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.methods.hmm.expected_counts import Likelihood
from dspectral.methods.hmm.inference import compute_posteriors, viterbi
from dspectral.registry import register_class
from dspectral.types import Doubles, Int32s, IntArray, LabeledSentences, Sentences

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)
CorpusLike: TypeAlias = HoldsSentences | HoldsLabeledSentences
"""A corpus, with or without labels."""


@register_class({"model_.initial": "k", "model_.emission": "t k"})
class ChainDecoder(RunPlanMixin, TopTermsMixin, BaseEstimator):
    """Base of estimators whose ``model_`` is a hidden Markov model over types; each block is one task."""

    model_: HiddenMarkov
    words_: Any
    _tokens_are_strings = True

    def _lookup_types(self, tokens: Sequence[Hashable]) -> Int32s:
        """Return the type of each token, 0 if out of vocabulary."""
        return encode_sentences([tokens], self.words_).ids

    def encode(self, X: TokenLists) -> Sentences:
        """Return token lists as one block of ids of the model's types."""
        check_is_fitted(self)
        # One lookup for the block rather than one for each sentence.
        sentences = as_token_lists(X, require_strings=self._tokens_are_strings)
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
        tokens = [token for token_list in sentences for token in as_python_values(token_list)]
        return Sentences(self._lookup_types(tokens), offsets)

    def blocks(self, corpus: CorpusLike) -> Blocks:
        """Return the sentences of any corpus as lazy blocks of ids of the model's types."""
        check_is_fitted(self)
        return renumber_blocks(corpus.sentences, self._lookup_types(corpus.words))

    def _term_weights(self) -> Doubles:
        return self.model_.emission.T

    def _as_blocks(self, X: CorpusLike | TokenLists) -> Blocks:
        # A corpus has ids of its own vocabulary, so its words are looked up too.
        if hasattr(X, "words") and hasattr(X, "sentences"):
            return self.blocks(cast("CorpusLike", X))
        return as_memory_blocks([self.encode(X)])

    def _map_sentences(
        self, X: CorpusLike | TokenLists, function: Callable[[Sentences], NDArray[N]]
    ) -> list[NDArray[N]]:
        """Return one array for each sentence, from a function that maps a block to one row for each token."""
        blocks = apply_to_blocks(self._as_blocks(X), lambda block: split_by_sentence(function(block), block))
        return [rows for block in blocks for rows in block]

    def _best_paths(self, X: CorpusLike | TokenLists) -> tuple[Doubles, list[IntArray]]:
        """Return the log-probability and the states of the most probable path through each sentence."""
        model = self.model_

        def find_paths(block: Sentences) -> tuple[Doubles, list[Int32s]]:
            path = viterbi(block, model)
            return path.log_joint, split_by_sentence(path.states, block)

        paths = apply_to_blocks(self._as_blocks(X), find_paths)
        log_prob = np.concatenate([block_log_prob for block_log_prob, _ in paths])
        return log_prob, [states for _, block in paths for states in block]


class StateDecoder(ChainDecoder):
    """Base of unsupervised estimators, which predict hidden states."""

    def predict(self, X: CorpusLike | TokenLists) -> list[IntArray]:
        """Return the state of highest posterior probability of each token.

        Parameters
        ----------
        X : corpus, or iterable of token lists
            Sentences to decode. An out-of-vocabulary word is type 0, ``"<?>"``, or a class by spelling.

        Returns
        -------
        list of ndarray of int, shape (n_tokens_i,)
            One array for each sentence.
        """
        return self._map_sentences(X, self.states)

    def predict_proba(self, X: CorpusLike | TokenLists) -> list[Doubles]:
        """Return the posterior probability of each state at each token of each sentence.

        Parameters
        ----------
        X : corpus, or iterable of token lists
            Sentences as for :meth:`predict`.

        Returns
        -------
        list of ndarray of float64, shape (n_tokens_i, n_states)
            One array for each sentence; rows sum to 1. Memory: ``8 n_states`` bytes for each token.
        """
        return self._map_sentences(X, self._posteriors)

    def decode(self, X: CorpusLike | TokenLists) -> tuple[Doubles, list[IntArray]]:
        """Return the most probable path through each sentence.

        Parameters
        ----------
        X : corpus, or iterable of token lists
            Sentences as for :meth:`predict`.

        Returns
        -------
        log_prob : ndarray of float64, shape (n_sentences,)
            Joint log-probability of each sentence and its path; minus infinity if impossible.
        states : list of ndarray of int32, shape (n_tokens_i,)
            The path through each sentence.
        """
        return self._best_paths(X)

    def score(self, X: CorpusLike | TokenLists, y: object = None) -> float:
        """Return the mean log-likelihood per token.

        Parameters
        ----------
        X : corpus, or iterable of token lists
            Sentences as for :meth:`predict`.
        y : ignored
            Not used, present for API consistency.

        Returns
        -------
        float
            In nats, from one pass; minus infinity if a sentence is impossible. Set ``smoothing`` or ``min_count`` to
            give out-of-vocabulary words a positive probability.
        """
        check_is_fitted(self)
        summarize_block = partial(Likelihood.from_block, model=self.model_)
        return summarize(self._as_blocks(X), summarize_block=summarize_block, name="score").per_token

    def states(self, sentences: Sentences) -> IntArray:
        """Return the most probable state of each token of a block of ids of the model's types, shape (n_tokens,)."""
        check_is_fitted(self)
        return np.argmax(self._posteriors(sentences), axis=1)

    def _posteriors(self, sentences: Sentences) -> Doubles:
        return compute_posteriors(sentences, self.model_).posterior


def renumber_blocks(blocks: Blocks, new_ids: Int32s) -> Blocks:
    """Return blocks whose ids are replaced by ``new_ids[ids]`` when they are read."""
    return blocks._replace(read=partial(_read_renumbered, read=blocks.read, new_ids=new_ids))


def apply_to_blocks(blocks: Blocks, function: Callable[[Sentences], T]) -> list[T]:
    """Return the results of a function for every block: computed directly for blocks in memory, else one task each."""
    # The function, with its model, is one node of the graph, not part of every task.
    read = blocks.read
    if blocks.in_memory:
        return [function(read(item)) for item in blocks.items]
    return run_tasks(lambda item: function(read(item)), blocks.items, name="decode")


def split_by_sentence(rows: NDArray[N], sentences: Sentences) -> list[NDArray[N]]:
    """Return the rows of the tokens of each sentence."""
    # Without inner offsets np.split returns one array even for zero sentences.
    return np.split(rows, sentences.offsets[1:-1]) if sentences.n_sentences else []


def _read_renumbered(
    item: object, *, read: Callable[[object], Sentences | LabeledSentences], new_ids: Int32s
) -> Sentences:
    block = read(item)
    return Sentences(new_ids[block.ids], block.offsets)
