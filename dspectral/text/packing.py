"""Texts in memory: what is taken as a collection of documents, and how it is packed, a block at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, TypeAlias

from dspectral.types import Documents, is_missing

Texts: TypeAlias = Iterable[str] | Iterable[bytes]
"""Documents in memory: a list, tuple, generator, or column of pandas, polars, Arrow or a data set."""
_ROWS = 4096
BLOCK_BYTES = 16 << 20
"""Bytes of text that are packed and worked on at once."""


StandIn: TypeAlias = Callable[[str], bytes | None]
"""Function of the place of a missing text, which returns what it is read as, None where it is left out, or raises."""


def text_blocks(
    X: Texts, *, block_bytes: int = BLOCK_BYTES, named: str = "document", stand_in: StandIn | None = None
) -> Iterator[Documents]:
    """Pack texts into blocks, read one after the other; missing ones are errors, unless something stands for them.

    >>> [block.n_documents for block in text_blocks(["to be", "or not", "to be"], block_bytes=10)]
    [2, 1]
    """
    held: list[bytes] = []
    n_bytes = 0
    for text in encoded_texts(X, named=named, stand_in=stand_in):
        held.append(text)
        n_bytes += len(held[-1])
        if n_bytes >= block_bytes:
            yield Documents.of(held)
            held, n_bytes = [], 0
    if held:
        yield Documents.of(held)


def encoded_texts(X: Texts, *, named: str = "document", stand_in: StandIn | None = None) -> Iterator[bytes]:
    """Yield each of some texts in UTF-8."""
    for number, text in enumerate(values_of(X)):
        known = text
        if stand_in is not None and not isinstance(text, str | bytes) and is_missing(text):
            known = stand_in(f"{named} {number} is {_shown(text)}")
            if known is None:
                continue
        yield _encoded(known, f"{named} {number}")


def values_of(X: Texts | str | bytes) -> Iterable[Any]:
    """Return what iterates over the documents, if X is a collection of documents."""
    if isinstance(X, str | bytes | PathLike):
        shown = f"{str(X)[:40]!r}" if isinstance(X, PathLike) else f"{X[:40]!r}"
        raise TypeError(
            f"X is one string: [{shown}] is a list of one text, and TextFiles({shown}) names files"
        )
    column: Any = X
    if hasattr(X, "to_pylist") and hasattr(X, "slice"):  # Arrow's own scalars are no strings
        return (text for i in range(0, len(column), _ROWS) for text in column.slice(i, _ROWS).to_pylist())
    shape = getattr(X, "shape", (0,))
    wrong = isinstance(X, Mapping | set | frozenset) or hasattr(X, "__dask_graph__")
    if wrong or not (isinstance(X, Iterable) or hasattr(X, "__getitem__")) or len(shape) != 1:
        kind = f"a {type(X).__name__}" + (f" of {len(shape)} dimensions" if len(shape) != 1 else "")
        raise TypeError(
            f"X is {kind}, but texts are a list, a generator or one column of strings; TextFiles names files"
        )
    values: Iterable[Any] = iter(X)  # also of a sequence that has but __getitem__
    return values


def _encoded(text: str | bytes, place: str) -> bytes:
    try:
        if isinstance(text, str):
            return text.encode()
        if isinstance(text, bytes):
            text.decode()
            return text
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{place} is not text in UTF-8: {error.reason}") from error
    raise TypeError(f"{place} is {_shown(text)}, but it must be a string")


def _shown(value: Any) -> str:
    """Return a value in few characters: itself if it is short, else its type."""
    shown = repr(value)
    return shown if len(shown) <= 40 and "\n" not in shown else f"a {type(value).__name__}"
