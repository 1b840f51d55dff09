"""Validate sequences: a corpus in blocks, or lists of tokens with or without labels."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import Blocks, is_lazy
from dspectral.store.location import Location
from dspectral.types import RARE, Int64s, LabeledSentences, Sentences, is_missing, is_sparse

T = TypeVar("T", bound=Sized)


TokenLists: TypeAlias = Iterable[Sequence[Hashable] | NDArray[Any]]
"""Sequences of tokens or labels: an iterable or column of lists, tuples or arrays."""


def as_token_lists(X: TokenLists, name: str = "X", *, require_strings: bool = True) -> list[Sequence[Any]]:
    """Return a collection of token lists as a list; raise an error for other input."""
    scalar = not (isinstance(X, Iterable) or hasattr(X, "__getitem__")) or getattr(X, "shape", None) == ()
    # A matrix of strings holds sentences of equal length; integers are tokens unless these must be strings.
    kinds = "OU" if require_strings else "OUSbiu"
    numeric = is_sparse(X) or is_lazy(X) or (isinstance(X, np.ndarray) and X.dtype.kind not in kinds)
    if scalar or numeric or isinstance(X, str | bytes | Mapping) or hasattr(X, "columns"):
        raise TypeError(
            f"{name} has type {type(X).__name__}, but must be a list of token lists, a column of them, or a corpus"
        )
    # Iterating over Polars or Arrow columns yields columns instead of lists.
    to_list = getattr(X, "to_pylist", None) or getattr(X, "to_list", None)  # Arrow's; pandas's and Polars's
    collection: Iterable[Any] = X if to_list is None else to_list()
    sentences = [list(sentence) if isinstance(sentence, Iterator) else sentence for sentence in collection]
    check_lists(sentences, require_strings=require_strings)
    return sentences


def check_lists(sentences: Sequence[Any], *, require_strings: bool = True) -> None:
    """Raise a ValueError if a sentence is not a list of tokens."""
    tokens = "strings, one for each token" if require_strings else "tokens"
    for number, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Sized) and not isinstance(sentence, str | bytes | Mapping | AbstractSet)
        if not is_list or (require_strings and not all(isinstance(word, str) for word in sentence)):
            raise ValueError(f"sentence {number} is {sentence!r:.60}, but must be a list of {tokens}")


def as_python_values(values: Sequence[Hashable] | NDArray[Any]) -> Sequence[Any]:
    """Return the values of an array as Python objects, so that values of lists and arrays are equal."""
    return cast("list[Any]", values.tolist()) if isinstance(values, np.ndarray) else values


def split_sequences(sequences: Sequence[T], n_tokens: int) -> list[list[T]]:
    """Split a list of sequences into lists of at least ``n_tokens`` tokens; depends on the lengths only."""
    parts: list[list[T]] = [[]]
    size = 0
    for sequence in sequences:
        if size >= n_tokens:
            parts.append([])
            size = 0
        parts[-1].append(sequence)
        size += len(sequence)
    return parts


BLOCK_TOKENS = 1 << 20
"""Tokens per in-memory block of sentences."""
LABELED_BLOCK_TOKENS = 1 << 18
"""Tokens per in-memory block of labeled sentences, whose summaries are larger."""

HINT = "use VectorQuantizer to convert numeric frames to tokens"


class HoldsSentences(Protocol):
    """A corpus: blocks of sentences as token ids, and the vocabulary."""

    @property
    def words(self) -> list[str]:
        """Return the word types by descending count; type 0 is ``"<?>"``."""

    @property
    def counts(self) -> Int64s:
        """Return the number of tokens of each type, shape ``(n_types,)``."""

    @property
    def sentences(self) -> Blocks:
        """Return blocks of :class:`~dspectral.types.Sentences`."""


class HoldsLabeledSentences(Protocol):
    """Blocks of labeled sentences, and their token types and labels."""

    @property
    def words(self) -> Sequence[Hashable]:
        """Return the token types by id; type 0 represents out-of-vocabulary tokens."""

    @property
    def labels(self) -> Sequence[Hashable]:
        """Return the labels by id."""

    @property
    def sentences(self) -> Blocks:
        """Return blocks of :class:`~dspectral.types.LabeledSentences`."""


class TokenCorpus(NamedTuple):
    """Sentences of token ids, word types by descending count, and the location of the store."""

    words: list[str]
    counts: Int64s
    sentences: Blocks
    where: Location | None = None


class LabeledCorpus(NamedTuple):
    """Blocks of labeled sentences of token ids, and the tokens and labels by id."""

    words: list[Any]
    labels: list[Any]
    sentences: Blocks


def is_corpus(X: object) -> bool:
    """Return whether X has the attributes of a :class:`TokenCorpus`: ``words``, ``counts`` and ``sentences``."""
    return all(hasattr(X, name) for name in ("words", "counts", "sentences"))


def is_token_lists(X: object) -> bool:
    """Return whether X is lists of tokens, rather than a corpus or an array of numbers."""
    if is_corpus(X) or is_lazy(X) or is_sparse(X) or hasattr(X, "columns") or len(getattr(X, "shape", ())) > 2:
        return False
    return getattr(getattr(X, "dtype", None), "kind", "O") not in "biufcV"


class ReadOnceMixin:
    """Mixin of ``fit_transform`` for sentences, of which an iterator cannot be read twice."""

    def fit_transform(self, X: Any, y: object = None, **fit_params: Any) -> Any:
        """Fit to sentences, and return their coordinates.

        Parameters
        ----------
        X : as for ``fit``
            Sentences; a generator is read once.
        y : object, optional
            Not used, present for API consistency.
        **fit_params : dict
            Parameters of ``fit``.

        Returns
        -------
        ndarray or (for lazy sentences) Dask array, shape (n_sentences, n_coordinates)
            Coordinates, as ``transform`` returns them.
        """
        sentences = as_token_lists(X) if is_token_lists(X) else X
        estimator: Any = self
        return estimator.fit(sentences, y, **fit_params).transform(sentences)


def as_corpus(X: HoldsSentences | TokenLists, *, min_count: int = 1) -> HoldsSentences:
    """Return X as a corpus; words that occur less than ``min_count`` times become type 0."""
    if min_count < 1:
        raise ValueError(f"min_count={min_count} must be at least 1")
    if not is_corpus(X):
        return _from_lists(cast("TokenLists", X), min_count)
    corpus = cast("HoldsSentences", X)
    if not int(corpus.counts.sum()):
        raise ValueError("X has no words, but must have at least one")
    # Types are sorted by descending count, so the frequent ones come first.
    n_kept = 1 + int(np.sum(corpus.counts[1:] >= min_count))
    return corpus if n_kept == len(corpus.words) else _merge_rare(corpus, n_kept)


def as_labeled_corpus(X: HoldsLabeledSentences | TokenLists, y: TokenLists | None = None) -> LabeledCorpus:
    """Return labeled sequences as a corpus, with ids by first appearance."""
    # A corpus in a store has ids already, and is not read.
    if all(hasattr(X, name) for name in ("words", "labels", "sentences")):
        stream = cast("HoldsLabeledSentences", X)
        return LabeledCorpus(list(stream.words), list(stream.labels), stream.sentences)
    if y is None:
        raise ValueError("y=None must be a sequence of labels for each sequence of tokens")
    sequences = as_token_lists(cast("TokenLists", X), require_strings=False)
    tags = as_token_lists(y, "y", require_strings=False)
    if len(sequences) != len(tags):
        raise ValueError(f"y has {len(tags)} sequences, but must have {len(sequences)}, as many as X")
    for i, (token_list, labels) in enumerate(zip(sequences, tags, strict=True)):
        if len(token_list) != len(labels):
            raise ValueError(
                f"sequence {i} has {len(labels)} labels, but must have {len(token_list)}, one for each token"
            )
    words, names = _assign_ids(sequences, "token", {RARE: 0}), _assign_ids(tags, "label", {})
    if not names:
        raise ValueError("X has no tokens, but must have at least one")
    parts = zip(*(split_sequences(lists, LABELED_BLOCK_TOKENS) for lists in (sequences, tags)), strict=True)
    packed = [(_encode_values(tokens, words), _encode_values(labels, names).ids) for tokens, labels in parts]
    blocks = [LabeledSentences(token_list.ids, labels, token_list.offsets) for token_list, labels in packed]
    return LabeledCorpus(list(words), list(names), as_memory_blocks(blocks))


def encode_sentences(sentences: TokenLists, words: Sequence[Hashable]) -> Sentences:
    """Return sentences as token ids: indices in ``words``, 0 for out-of-vocabulary tokens."""
    token_lists = as_token_lists(sentences, require_strings=False)
    numbers = {word: i for i, word in enumerate(words)}
    try:
        return _encode_values(token_lists, numbers)
    except TypeError:
        raise TypeError(f"a token must be hashable, but one is not: {HINT}") from None


def as_memory_blocks(blocks: Sequence[object]) -> Blocks:
    """Return in-memory blocks as a stream of blocks."""
    return Blocks(_return_block, blocks, in_memory=True)


def _assign_ids(sequences: Sequence[Any], kind: str, ids: dict[Hashable, int]) -> dict[Hashable, int]:
    """Add an id for each new value to ``ids``, by first appearance, and return it."""
    for i, sequence in enumerate(sequences):
        try:
            # dict.fromkeys keeps the order of first appearance; the order of a set of strings varies between runs.
            for value in dict.fromkeys(as_python_values(sequence)):
                if value not in ids:
                    if is_missing(value) or (kind == "label" and value == ""):
                        raise ValueError(
                            f"sequence {i} has the {kind} {value!r}, but no {kind} may be missing: remove it, "
                            f"or replace missing {kind}s by a name"
                        )
                    ids[value] = len(ids)
        except TypeError:
            raise TypeError(f"sequence {i} has a {kind} that is not hashable: {HINT}") from None
    return ids


def _encode_values(sequences: Sequence[Any], ids: Mapping[Hashable, int]) -> Sentences:
    """Return the ids of all values, 0 for unknown ones, and the offsets of the sequences."""
    # np.fromiter avoids a list of Python integers, which takes ten times the memory.
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
    values = (ids.get(value, 0) for sequence in sequences for value in as_python_values(sequence))
    return Sentences(np.fromiter(values, np.int32, int(offsets[-1])), offsets)


def _from_lists(X: TokenLists, min_count: int) -> TokenCorpus:
    sentences = as_token_lists(X)
    word_counts: Counter[str] = Counter()
    for sentence in sentences:
        word_counts.update(as_python_values(sentence))
    if not word_counts:
        raise ValueError(f"X has no words in its {len(sentences)} sentence(s), but must have at least one")
    frequent_words = [word for word, count in word_counts.items() if count >= min_count and word != RARE]
    # Ties are sorted by bytes, as in stores, so that the order of sentences has no effect. A literal "<?>" in the text
    # becomes type 0.
    try:
        frequent_words.sort(key=lambda word: (-word_counts[word], word.encode()))
    except UnicodeEncodeError as error:
        raise ValueError(f"the token {error.object!r:.60} must be valid UTF-8: {error.reason}") from error
    counts = [word_counts[word] for word in frequent_words]
    words = [RARE, *frequent_words]
    numbers: dict[Hashable, int] = {word: i for i, word in enumerate(words)}
    blocks = [_encode_values(part, numbers) for part in split_sequences(sentences, BLOCK_TOKENS)]
    all_counts = np.array([word_counts.total() - sum(counts), *counts], dtype=np.int64)
    return TokenCorpus(words, all_counts, as_memory_blocks(blocks))


def _return_block(block: object) -> Any:
    return block


def _merge_rare(corpus: HoldsSentences, n_types: int) -> TokenCorpus:
    """Return a corpus of the ``n_types`` most frequent types; rarer ones become type 0."""
    counts = np.array(corpus.counts[:n_types], dtype=np.int64)
    counts[0] += int(corpus.counts[n_types:].sum())
    read = partial(_read_with_rare_merged, read=corpus.sentences.read, n_types=n_types)
    location = getattr(corpus, "location", None)
    return TokenCorpus(list(corpus.words[:n_types]), counts, corpus.sentences._replace(read=read), location)


def _read_with_rare_merged(item: object, *, read: Callable[[object], Sentences], n_types: int) -> Sentences:
    # Applied while reading, so that another ``min_count`` needs no copy on disk.
    ids, offsets = read(item)
    return Sentences(np.where(ids < n_types, ids, np.int32(0)), offsets)


class HoldsWords(Protocol):
    """A fitted model with a vocabulary."""

    words_: list[str]


_INDEXES: WeakKeyDictionary[HoldsWords, tuple[list[str], dict[str, int]]] = WeakKeyDictionary()
"""Word index of each model, outside of the model so that it is not pickled or saved."""


def get_word_ids(model: HoldsWords) -> dict[str, int]:
    """Return the index of each word in ``words_``."""
    words, numbers = _INDEXES.get(model, (None, {}))
    # A fit assigns a new list, so the identity of the list shows whether the index is current.
    if words is not model.words_:
        numbers = {word: i for i, word in enumerate(model.words_)}
        _INDEXES[model] = model.words_, numbers
    return numbers
