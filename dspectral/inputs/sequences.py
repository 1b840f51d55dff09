"""Sequences at the door of an estimator: a corpus in blocks, or lists of tokens with or without labels."""

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
from dspectral.types import Int64s, LabelledSentences, Sentences, is_missing, is_sparse

T = TypeVar("T", bound=Sized)


TokenLists: TypeAlias = Iterable[Sequence[Hashable] | NDArray[Any]]
"""Sequences of tokens or labels: a list, tuple, generator or column of lists, tuples or arrays."""


def token_lists(X: TokenLists, name: str = "X", *, strings: bool = True) -> list[Sequence[Any]]:
    """Return a collection of token lists as a list."""
    scalar = not (isinstance(X, Iterable) or hasattr(X, "__getitem__")) or getattr(X, "shape", None) == ()
    if scalar or isinstance(X, str | bytes | Mapping) or hasattr(X, "columns") or _is_numeric(X, strings):
        raise TypeError(
            f"{name} is of type {type(X).__name__}, but it must be a list of token lists, a column of them, or a "
            "corpus"
        )
    # Polars and Arrow give a column of their own for each sentence when they are iterated, and lists when asked for.
    to_list = getattr(X, "to_pylist", None) or getattr(X, "to_list", None)  # Arrow's; pandas's and Polars's
    collection: Iterable[Any] = X if to_list is None else to_list()
    sentences = [list(sentence) if isinstance(sentence, Iterator) else sentence for sentence in collection]
    check_lists(sentences, strings=strings)
    return sentences


def check_lists(sentences: Sequence[Any], *, strings: bool = True) -> None:
    """Refuse a sentence that is not a list of tokens."""
    tokens = "strings, one for each token" if strings else "tokens"
    for number, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Sized) and not isinstance(
            sentence, str | bytes | Mapping | AbstractSet
        )
        if not is_list or (strings and not all(isinstance(word, str) for word in sentence)):
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


RARE = "<?>"
"""Name of type 0: words too rare for a type of their own, and words that were never seen."""
BLOCK_TOKENS = 1 << 20
"""Tokens of an in-memory block of sentences."""
LABELLED_BLOCK_TOKENS = 1 << 18
"""Tokens of an in-memory block of labeled sentences; each leaves more numbers behind than one without labels."""

HINT = "VectorQuantizer turns frames of numbers into tokens"


class HoldsSentences(Protocol):
    """A corpus: blocks of sentences of token ids, and the words behind the ids."""

    @property
    def words(self) -> list[str]:
        """Return the word types in order of falling count; type 0 is ``"<?>"``."""

    @property
    def counts(self) -> Int64s:
        """Return the number of tokens of each type, shape ``(n_types,)``."""

    @property
    def sentences(self) -> Blocks:
        """Return blocks of :class:`~dspectral.types.Sentences`."""


class HoldsLabelledSentences(Protocol):
    """Blocks of labeled sentences, and the tokens and labels behind their numbers."""

    @property
    def words(self) -> Sequence[Hashable]:
        """Return the token types by number; type 0 stands for unknown tokens."""

    @property
    def labels(self) -> Sequence[Hashable]:
        """Return the labels by number."""

    @property
    def sentences(self) -> Blocks:
        """Return blocks of :class:`~dspectral.types.LabelledSentences`."""


class TokenCorpus(NamedTuple):
    """Sentences of ids, their words by falling count, and the store that holds them."""

    words: list[str]
    counts: Int64s
    sentences: Blocks
    where: Location | None = None


class LabelledCorpus(NamedTuple):
    """Blocks of labeled sentences of token ids, and the tokens and labels by number."""

    words: list[Any]
    labels: list[Any]
    sentences: Blocks


def is_corpus(X: object) -> bool:
    """Report whether X is a corpus: it has ``words``, ``counts`` and ``sentences``, as a :class:`TokenCorpus` has."""
    return all(hasattr(X, name) for name in ("words", "counts", "sentences"))


def as_corpus(X: HoldsSentences | TokenLists, *, min_count: int = 1) -> HoldsSentences:
    """Return the words, their counts and the blocks of sentences that X holds.

    >>> corpus = as_corpus([["the", "cat", "sat"], ["the", "dog"]], min_count=2)
    >>> corpus.words, corpus.counts
    (['<?>', 'the'], array([3, 2]))
    """
    if min_count < 1:
        raise ValueError(f"min_count is {min_count}, but it must be 1 or more")
    if not is_corpus(X):
        return _from_lists(cast("TokenLists", X), min_count)
    corpus = cast("HoldsSentences", X)
    if not int(corpus.counts.sum()):
        raise ValueError("there is no word in the corpus")
    # Types are in order of falling count: those that are frequent enough are the first ones.
    n_kept = 1 + int(np.sum(corpus.counts[1:] >= min_count))
    return corpus if n_kept == len(corpus.words) else _merge_rare(corpus, n_kept)


def as_labelled(X: HoldsLabelledSentences | TokenLists, y: TokenLists | None = None) -> LabelledCorpus:
    """Give tokens and labels numbers in the order of their first appearance."""
    # A corpus in a store has its numbers already, and is not read here.
    if all(hasattr(X, name) for name in ("words", "labels", "sentences")):
        stream = cast("HoldsLabelledSentences", X)
        return LabelledCorpus(list(stream.words), list(stream.labels), stream.sentences)
    if y is None:
        raise ValueError("y is None, but labels are needed: a sequence of labels for each sequence of tokens")
    sequences, tags = token_lists(cast("TokenLists", X), strings=False), token_lists(y, "y", strings=False)
    if len(sequences) != len(tags):
        raise ValueError(f"there are {len(sequences)} sequences of tokens, but {len(tags)} of labels")
    for i, (own, labels) in enumerate(zip(sequences, tags, strict=True)):
        if len(own) != len(labels):
            raise ValueError(f"sequence {i} has {len(own)} tokens, but {len(labels)} labels")
    words, names = _assign_ids(sequences, "token", {RARE: 0}), _assign_ids(tags, "label", {})
    if not names:
        raise ValueError("there is no token in any sequence")
    parts = zip(cut(sequences, LABELLED_BLOCK_TOKENS), cut(tags, LABELLED_BLOCK_TOKENS), strict=True)
    packed = [(_encode_values(tokens, words), _encode_values(labels, names).ids) for tokens, labels in parts]
    blocks = [LabelledSentences(own.ids, labels, own.offsets) for own, labels in packed]
    return LabelledCorpus(list(words), list(names), in_memory_blocks(blocks))


def encode(sentences: TokenLists, words: Sequence[Hashable]) -> Sentences:
    """Return sentences as ids: the places of their tokens in ``words``, 0 for tokens that are not there."""
    own, numbers = token_lists(sentences, strings=False), {word: i for i, word in enumerate(words)}
    try:
        return _encode_values(own, numbers)
    except TypeError:
        raise TypeError(f"a token is not hashable: {HINT}") from None


def in_memory_blocks(blocks: Sequence[object]) -> Blocks:
    """Return blocks that are in memory already as a stream of blocks."""
    return Blocks(_return_block, blocks, in_memory=True)


def _assign_ids(sequences: Sequence[Any], kind: str, numbers: dict[Hashable, int]) -> dict[Hashable, int]:
    """Give each new value the next number."""
    for i, sequence in enumerate(sequences):
        try:
            # Distinct values, in the order of first appearance: a set of strings has another order in each run.
            for value in dict.fromkeys(plain(sequence)):
                if value not in numbers:
                    if is_missing(value) or (kind == "label" and value == ""):
                        raise ValueError(
                            f"sequence {i} has the {kind} {value!r}, a missing one, but each token must have a {kind}: "
                            "leave such sequences out, or give missing ones a name"
                        )
                    numbers[value] = len(numbers)
        except TypeError:
            raise TypeError(f"sequence {i} has a {kind} that is not hashable: {HINT}") from None
    return numbers


def _encode_values(sequences: Sequence[Any], numbers: Mapping[Hashable, int]) -> Sentences:
    """Return the numbers of all values, 0 for unknown ones, and where each sequence begins."""
    # fromiter with a known length fills one array of int32: a list of Python integers would take ten times as much.
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
    values = (numbers.get(value, 0) for sequence in sequences for value in plain(sequence))
    return Sentences(np.fromiter(values, np.int32, int(offsets[-1])), offsets)


def _from_lists(X: TokenLists, min_count: int) -> TokenCorpus:
    sentences = token_lists(X)
    counted: Counter[str] = Counter()
    for sentence in sentences:
        counted.update(plain(sentence))
    if not counted:
        raise ValueError(f"there is no word in the {len(sentences)} sentence(s)")
    kept = [word for word, count in counted.items() if count >= min_count and word != RARE]
    # The order must not depend on that of the sentences, and is the one that stores have: their vocabulary is sorted
    # by bytes. A literal "<?>" in the text is type 0 like rare words.
    try:
        kept.sort(key=lambda word: (-counted[word], word.encode()))
    except UnicodeEncodeError as error:
        raise ValueError(f"the token {error.object!r:.60} is not text in UTF-8: {error.reason}") from error
    counts = [counted[word] for word in kept]
    words = [RARE, *kept]
    numbers: dict[Hashable, int] = {word: i for i, word in enumerate(words)}
    blocks = [_encode_values(part, numbers) for part in cut(sentences, BLOCK_TOKENS)]
    return TokenCorpus(
        words, np.array([counted.total() - sum(counts), *counts], dtype=np.int64), in_memory_blocks(blocks)
    )


def _return_block(block: Any) -> Any:
    return block


def _merge_rare(corpus: HoldsSentences, n_types: int) -> TokenCorpus:
    """Make the types from ``n_types`` on type 0: they are the rarest, as types are in order of falling count."""
    counts = np.array(corpus.counts[:n_types], dtype=np.int64)
    counts[0] += int(corpus.counts[n_types:].sum())
    read = partial(_read_merged, read=corpus.sentences.read, n_types=n_types)
    where = getattr(corpus, "where", None)
    return TokenCorpus(list(corpus.words[:n_types]), counts, corpus.sentences._replace(read=read), where)


def _read_merged(item: object, *, read: Callable[[object], Sentences], n_types: int) -> Sentences:
    # When the block is read, so that a corpus with another ``min_count`` costs no copy on disk.
    ids, offsets = read(item)
    return Sentences(np.where(ids < n_types, ids, np.int32(0)), offsets)


class HoldsWords(Protocol):
    """A fitted model with a vocabulary."""

    words_: list[str]


_INDEXES: WeakKeyDictionary[HoldsWords, tuple[list[str], dict[str, int]]] = WeakKeyDictionary()
"""Index of each model that was asked, beside it: in it, the index would be saved and pickled with the vocabulary."""


def word_numbers(model: HoldsWords) -> dict[str, int]:
    """Return the place of each word in ``words_``."""
    words, numbers = _INDEXES.get(model, (None, {}))
    # A fit assigns a new list, so that identity tells an index of an earlier fit, without comparing all words.
    if words is not model.words_:
        numbers = {word: i for i, word in enumerate(model.words_)}
        _INDEXES[model] = model.words_, numbers
    return numbers
