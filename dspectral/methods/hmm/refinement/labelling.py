"""Labels, their probabilities and scores from a fitted chain whose states are refinements of labels."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dspectral._compiled import read_only
from dspectral.inputs.sequences import HoldsLabelledSentences, TokenLists, as_labelled, encode
from dspectral.methods.hmm.chain import check_ids
from dspectral.methods.hmm.decoding import ChainDecoder, HoldsBlocks, map_blocks
from dspectral.methods.hmm.inference import smooth
from dspectral.methods.hmm.refinement.operators import Operators
from dspectral.methods.hmm.refinement.recursions import decode_block
from dspectral.methods.hmm.refinement.starts import RefinementRecipe
from dspectral.types import LabelledSentences, Sentences


class LabelDecoder(ChainDecoder):
    """Base of the estimator that learns a chain with labels: what it predicts are labels, whatever their refinements.

    :class:`~dspectral.RefinementHMM` describes the fitted attributes.
    """

    words_: list[Hashable]
    labels_: list[Hashable]
    n_refinements_: NDArray[np.int64]
    bounds_: NDArray[np.int64]
    operators_: Operators | None
    _tokens_are_strings = False

    @property
    @abstractmethod
    def _recipe(self) -> RefinementRecipe:
        """Settings, those of the default where there are none."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Array of the labels by number, shape (n_labels,): the columns of :meth:`predict_proba`."""
        check_is_fitted(self)
        kinds = {type(label) for label in self.labels_}
        if len(kinds) == 1 and kinds <= {str, int, bool}:
            return np.array(self.labels_)
        # Through an object array: NumPy would make a table of labels that are tuples.
        names = np.empty(len(self.labels_), dtype=object)
        names[:] = self.labels_
        return names

    def predict(self, X: HoldsBlocks | TokenLists) -> list[list[Hashable]]:
        """Return the most probable label of each token, each by itself, in lists like X.

        Parameters
        ----------
        X : iterable of sequences of tokens, or an object with ``words`` and ``sentences``
            Sequences to label. Unknown tokens are type 0, which was never seen in training.

        Returns
        -------
        list of lists
            One label for each token.
        """
        return [[self.labels_[a] for a in share.argmax(axis=1)] for share in self.predict_proba(X)]

    def predict_proba(self, X: HoldsBlocks | TokenLists) -> list[NDArray[np.float64]]:
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
        check_is_fitted(self)
        return self._each_sentence(X, self.label_shares)

    def decode(self, X: HoldsBlocks | TokenLists) -> tuple[NDArray[np.float64], list[list[Hashable]]]:
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
            One label for each token, by the parameters, whatever the recipe's ``decoding`` is.
        """
        log_prob, paths = self._best_paths(X)
        # States are numbered label by label, so the label of a state is where its number falls.
        owners = np.repeat(np.arange(len(self.labels_)), self.n_refinements_)
        return log_prob, [[self.labels_[a] for a in owners[path]] for path in paths]

    def score(self, X: HoldsLabelledSentences | TokenLists, y: TokenLists | None = None) -> float:
        """Return the accuracy: the fraction of tokens whose label is right.

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
        corpus = as_labelled(X, y)
        # Labels that were never seen in training are -1, which no prediction is.
        known = {label: a for a, label in enumerate(self.labels_)}
        labels = np.array([known.get(label, -1) for label in corpus.labels])
        count = partial(self._count_right, types=self._type_numbers(corpus.words), labels=labels)
        n_right, n_tokens = np.sum(map_blocks(corpus.sentences, count), axis=0).tolist()
        return float(n_right / n_tokens)

    def _count_right(
        self, block: LabelledSentences, *, types: NDArray[np.int32], labels: NDArray[np.int64]
    ) -> tuple[int, int]:
        found = self.label_shares(Sentences(types[block.ids], block.offsets)).argmax(axis=1)
        return int(np.sum(found == labels[block.labels])), len(block.ids)

    def label_shares(self, sentences: Sentences) -> NDArray[np.float64]:
        """Return the probability of each label at each token of a block.

        Parameters
        ----------
        sentences : Sentences
            A block of ids, places in ``words_``, as :meth:`encode` gives it.

        Returns
        -------
        ndarray of float64, shape (n_tokens, n_labels)
            ``p(a_i = a | x)``; rows sum to 1.

        Notes
        -----
        ``O(n_tokens (n_labels m)^2)`` time.
        """
        return self.clipped_label_shares(sentences)[0]

    def clipped_label_shares(self, sentences: Sentences) -> tuple[NDArray[np.float64], int]:
        """Return what :meth:`label_shares` does, and how many shares came out negative and were set to 0.

        Parameters
        ----------
        sentences : Sentences
            A block of ids, as for :meth:`label_shares`.

        Returns
        -------
        shares : ndarray of float64, shape (n_tokens, n_labels)
            ``p(a_i = a | x)``; rows sum to 1.
        n_negative : int
            Number of negative shares, always 0 with ``decoding="parameters"``.
        """
        check_is_fitted(self)
        if self._recipe.decoding == "parameters":
            posterior = smooth(sentences, self.model_).posterior
            # The states of a label are neighbors, so the probability of the label is the sum over a run of columns. No
            # run is empty, as every label has at least one refinement.
            return np.add.reduceat(posterior, self.bounds_[:-1], axis=1), 0
        check_ids(sentences.ids, len(self.words_))
        out = np.empty((len(sentences.ids), len(self.labels_)))
        chain = Operators(*(read_only(part) for part in self.operators_ or ()))
        n_negative = decode_block(read_only(sentences.ids), read_only(sentences.offsets), chain, out)
        return out, int(n_negative)

    def _type_numbers(self, tokens: Sequence[Hashable]) -> NDArray[np.int32]:
        return encode([tokens], self.words_).ids
