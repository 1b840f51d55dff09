"""Pack collections of texts in memory into blocks of documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, TypeAlias

from dspectral.types import Documents, is_missing

Texts: TypeAlias = Iterable[str] | Iterable[bytes]
"""Documents in memory: a list, tuple, generator, or column of pandas, polars, Arrow or a data set."""
_ROWS = 4096
BLOCK_BYTES = 16 << 20
"""Bytes of text per block."""


MissingReplacement: TypeAlias = Callable[[str], bytes | None]
"""Function of the description of a missing text; returns its replacement or None to skip it, or raises."""


def pack_texts(
    X: Texts,
    *,
    block_bytes: int = BLOCK_BYTES,
    item_name: str = "document",
    replace_missing: MissingReplacement | None = None,
) -> Iterator[Documents]:
    """Yield blocks of packed texts; missing texts are errors unless ``replace_missing`` replaces them."""
    pending: list[bytes] = []
    n_bytes = 0
    for text in encode_texts(X, item_name=item_name, replace_missing=replace_missing):
        pending.append(text)
        n_bytes += len(pending[-1])
        if n_bytes >= block_bytes:
            yield Documents.from_strings(pending)
            pending, n_bytes = [], 0
    if pending:
        yield Documents.from_strings(pending)


def encode_texts(
    X: Texts, *, item_name: str = "document", replace_missing: MissingReplacement | None = None
) -> Iterator[bytes]:
    """Yield each text encoded as UTF-8."""
    for number, text in enumerate(iterate_texts(X)):
        content = text
        if replace_missing is not None and not isinstance(text, str | bytes) and is_missing(text):
            content = replace_missing(f"{item_name} {number} is {_shorten(text)}")
            if content is None:
                continue
        yield _encode_text(content, f"{item_name} {number}")


def iterate_texts(X: Texts | str | bytes) -> Iterable[Any]:
    """Return an iterable over the texts in X; raise a TypeError if X is not a collection of texts."""
    if isinstance(X, str | bytes | PathLike):
        short = f"{str(X)[:40]!r}" if isinstance(X, PathLike) else f"{X[:40]!r}"
        raise TypeError(
            f"X is one string, but must be a collection of texts: use [{short}] for one text, TextFiles({short}) "
            "for files"
        )
    column: Any = X
    if hasattr(X, "to_pylist") and hasattr(X, "slice"):  # iterating over Arrow yields scalars, not strings
        return (text for i in range(0, len(column), _ROWS) for text in column.slice(i, _ROWS).to_pylist())
    shape = getattr(X, "shape", (0,))
    is_unsupported = isinstance(X, Mapping | set | frozenset) or hasattr(X, "__dask_graph__")
    if is_unsupported or not (isinstance(X, Iterable) or hasattr(X, "__getitem__")) or len(shape) != 1:
        kind = f"a {type(X).__name__}" + (f" of {len(shape)} dimensions" if len(shape) != 1 else "")
        raise TypeError(
            f"X is {kind}, but must be a list, a generator or one column of strings, such as X['text']; a builder "
            "reads a table with field='text', and TextFiles reads files"
        )
    values: Iterable[Any] = iter(X)  # also works with __getitem__ alone
    return values


def _encode_text(text: str | bytes, item: str) -> bytes:
    try:
        if isinstance(text, str):
            return text.encode()
        if isinstance(text, bytes):
            text.decode()
            return text
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{item} is not valid UTF-8 ({error.reason}): decode or clean it first") from error
    raise TypeError(f"{item} is {_shorten(text)}, but must be a string")


def _shorten(value: object) -> str:
    """Return the representation of a value if it is short, else its type."""
    short = repr(value)
    return short if len(short) <= 40 and "\n" not in short else f"a {type(value).__name__}"
