"""Lists of tokens at the door: what may stand for them, and what is refused."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import is_lazy
from dspectral.types import is_sparse

T = TypeVar("T", bound=Sized)


TokenLists: TypeAlias = Iterable[Sequence[Hashable] | NDArray[Any]]
"""Sequences of tokens or labels: a list, tuple, generator or column of lists, tuples or arrays."""


def token_lists(X: TokenLists, name: str = "X", *, strings: bool = True) -> list[Sequence[Any]]:
    """Return a collection of token lists as a list.

    >>> token_lists((text.split() for text in ["a cat", "dogs"]))
    [['a', 'cat'], ['dogs']]
    """
    scalar = not (isinstance(X, Iterable) or hasattr(X, "__getitem__")) or getattr(X, "shape", None) == ()
    if scalar or isinstance(X, str | bytes | Mapping) or hasattr(X, "columns") or _is_numeric(X, strings):
        raise TypeError(
            f"{name} is of type {type(X).__name__}, but it must be a list of token lists, a column of them, or a "
            "corpus"
        )
    # Polars and Arrow give a column of their own for each sentence when they are iterated, and lists when asked for.
    to_list = getattr(X, "to_pylist", None) or getattr(X, "to_list", None)  # Arrow's; pandas's and Polars's
    found: Iterable[Any] = X if to_list is None else to_list()
    sentences = [list(sentence) if isinstance(sentence, Iterator) else sentence for sentence in found]
    check_lists(sentences, strings=strings)
    return sentences


def check_lists(sentences: Sequence[Any], *, strings: bool = True) -> None:
    """Refuse a sentence that is not a list of tokens."""
    tokens = "strings, one for each token" if strings else "tokens"
    for number, sentence in enumerate(sentences):
        fits = isinstance(sentence, Sized) and not isinstance(sentence, str | bytes | Mapping | AbstractSet)
        if not fits or (strings and not all(isinstance(word, str) for word in sentence)):
            raise ValueError(f"sentence {number} is {sentence!r:.60}, but it must be a list of {tokens}")


def plain(values: Sequence[Hashable] | NDArray[Any]) -> Sequence[Any]:
    """Return Python's own numbers and strings for an array of them, so that 1 from a list and from an array agree."""
    return cast("list[Any]", values.tolist()) if isinstance(values, np.ndarray) else values


def cut(sequences: Sequence[T], n_tokens: int) -> list[list[T]]:
    """Cut a list of sequences into lists of some ``n_tokens`` tokens each; the cuts depend on lengths alone."""
    parts: list[list[T]] = [[]]
    size = 0
    for sequence in sequences:
        if size >= n_tokens:
            parts.append([])
            size = 0
        parts[-1].append(sequence)
        size += len(sequence)
    return parts


def _is_numeric(X: object, strings: bool) -> bool:
    """Report whether X is a matrix, sparse, lazy or in memory; rows of integers may be tokens of another kind."""
    # A matrix of strings is sentences of equal length; a matrix of integers may be codes, where any token is taken.
    rows = isinstance(X, np.ndarray) and X.dtype.kind not in ("OU" if strings else "OUSbiu")
    return rows or is_sparse(X) or is_lazy(X)
