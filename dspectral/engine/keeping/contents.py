"""Digests of what a task computes: two tasks of one digest make the same bits, in whatever process and on whatever day.

Known by content are numbers, texts, arrays, tuples of these, functions of libraries that are pure, and whatever says so
itself (:class:`HasContent`). All else is refused by :class:`UnknownContentError`: the name of a file says
nothing of what will be in it tomorrow, and a function of a program may be another one then.
"""

import functools
import inspect
import re
import zlib
from collections.abc import Callable
from hashlib import blake2b
from types import NoneType
from typing import Any, Protocol, runtime_checkable

import google_crc32c
import numpy as np

from dspectral.types import is_sparse

PURE = re.compile(
    r"(dspectral|numpy|_?operator|builtins|math|functools|scipy\.sparse|"
    r"dask\.(array|utils|core|_task_spec|blockwise))(\.|$)"
)
"""Modules whose functions depend on their arguments alone ..."""
IMPURE = re.compile(
    r"load|read|open|from_?(file|txt|regex|buffer)|memmap|rand|eval|exec|input|compile|import"
)
"""... but for those of such names, outside dspectral."""
SMALL = 1 << 20
"""Bytes of an array from which on a part of its digest is remembered."""


class UnknownContentError(ValueError):
    """The content of something is not known, or may change."""


@runtime_checkable
class HasContent(Protocol):
    """An object that knows its content unread, as a block of a store does, or knows that nothing is known."""

    def known_content(self) -> object:
        """Return plain values that stand for the content; raise :class:`UnknownContentError` if it is not known."""
        ...


class Sealed:
    """A function that reads what a digest in its argument names: where that lies is no part of the content."""

    def __init__(self, read: Callable[[Any, Any], Any], where: object) -> None:
        self.read, self.where = read, where

    def __call__(self, item: Any) -> Any:
        """Read the item."""
        return self.read(self.where, item)

    def known_content(self) -> object:
        """Return the function, without the place."""
        return self.read


class Contents:
    """Digests of values: of arrays two checksums, 64 bits together, at about 2 GB a second and 6 GB from then on."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], int] = {}
        # Looked through in this order.
        self._kinds: dict[tuple[type, ...], Callable[[Any], object]] = {
            (np.ndarray,): self._array,
            (np.generic,): lambda one: ("scalar", one.dtype.str, one.tobytes().hex()),
            (NoneType, bool, int, float, complex, str, bytes, np.dtype): lambda one: (
                type(one).__name__,
                repr(one),
            ),
            (tuple, list): self._items,
            (dict,): self._pairs,
            (set, frozenset): self._members,
            (slice, range): self._range,
            (functools.partial,): self._partial,
            (np.random.SeedSequence,): self._seeds,
        }

    def of(self, thing: object) -> str:
        """Return the digest of anything whose content is known.

        >>> known = Contents()
        >>> known.of((1, "a")) == known.of((1, "a")), known.of(1) == known.of(1.0), known.of(1) == known.of(True)
        (True, False, False)
        """
        return digest(self._parts(thing))

    def _parts(self, thing: object) -> object:
        """Return nested tuples of texts that stand for a value."""
        if isinstance(thing, HasContent) and not isinstance(thing, type):
            return "content", _name(type(thing)), self._parts(thing.known_content())
        for kinds, parts in self._kinds.items():
            if isinstance(thing, kinds):
                return parts(thing)
        if is_sparse(thing):
            return self._sparse(thing)
        return self._function(thing) if callable(thing) else self._object(thing)

    def _items(self, thing: Any) -> object:
        kind = thing.__class__.__name__ if type(thing) in (tuple, list) else self._parts(type(thing))
        return kind, *map(self._parts, thing)

    def _pairs(self, thing: dict[Any, Any]) -> object:
        return "dict", *((self._parts(key), self._parts(value)) for key, value in thing.items())

    def _members(self, thing: Any) -> object:
        return "set", *sorted(map(self.of, thing))  # an order that does not depend on hashes

    def _range(self, thing: Any) -> object:
        return type(thing).__name__, *map(self._parts, (thing.start, thing.stop, thing.step))

    def _seeds(self, thing: np.random.SeedSequence) -> object:
        return "seeds", self._parts(thing.entropy), self._parts(thing.spawn_key), str(thing.pool_size)

    def _partial(self, thing: "functools.partial[Any]") -> object:
        return "partial", *map(self._parts, (thing.func, thing.args, sorted(thing.keywords.items())))

    def _function(self, thing: Any) -> object:
        owner, name = getattr(thing, "__self__", None), getattr(thing, "__name__", "")
        if owner is not None and not inspect.ismodule(owner) and not isinstance(thing, np.ufunc):
            return "method", self._parts(owner), name
        if type(thing).__module__ == "dask.utils" and hasattr(thing, "method"):  # calls a method by its name
            return "call", str(thing.method)
        if isinstance(thing, np.ufunc) and vars(np).get(name) is thing:
            return "ufunc", name
        return ("function", _pure(thing)) if hasattr(thing, "__qualname__") else self._object(thing)

    def _object(self, thing: object) -> object:
        """Return the attributes of an object of dspectral; of others it is not known whether they are all."""
        kind = type(thing)
        if kind.__module__.partition(".")[0] != "dspectral" or not hasattr(thing, "__dict__"):
            raise UnknownContentError(f"they hold or are read from a {_name(kind)}, which may change")
        return "object", self._parts(kind), self._parts(vars(thing))

    def _sparse(self, thing: Any) -> object:
        names = ("data", "indices", "indptr", "row", "col", "offsets")
        arrays = [self._parts(getattr(thing, name)) for name in names if hasattr(thing, name)]
        return _name(type(thing)), str(thing.shape), *arrays

    def _array(self, array: np.ndarray[Any, Any]) -> object:
        if array.dtype.hasobject:
            return "objects", str(array.shape), self._parts(array.tolist())
        return "array", array.dtype.str, str(array.shape), _order(array), self._bytes(array)

    def _bytes(self, array: np.ndarray[Any, Any]) -> str:
        flat = _flat(array)
        first = google_crc32c.extend(0, flat)
        if array.nbytes < SMALL:
            return f"{first:08x}{zlib.crc32(flat.data):08x}"
        # Where the same memory has the same first checksum as before, nobody has written to it; that is seen in a third
        # of the time of the second one.
        place = (array.__array_interface__["data"][0], array.shape, array.strides, first)
        if place not in self._known:
            self._known[place] = zlib.crc32(flat.data)
        return f"{first:08x}{self._known[place]:08x}"


def digest(content: object) -> str:
    """Return a digest of nested tuples of texts, 32 hexadecimal digits."""
    return blake2b(repr(content).encode(), digest_size=16).hexdigest()


def _flat(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bytes of an array in the order of its memory."""
    return np.ascontiguousarray(array.T if _order(array) == "F" else array).reshape(-1).view(np.uint8)


def _order(array: np.ndarray[Any, Any]) -> str:
    # BLAS may sum in another order where an array lies in memory by columns.
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _pure(function: Any) -> str:
    """Return the name of a function or class that will be the same tomorrow."""
    name = _name(function)
    if "<locals>" in name or "<lambda>" in name or not PURE.match(name):
        raise UnknownContentError(
            f"they come through {name}, of which nothing is known but its name: its code may be another tomorrow"
        )
    if IMPURE.search(name.rpartition(".")[2]) and not name.startswith(("dspectral.", "dask.array.random.")):
        raise UnknownContentError(f"they come through {name}, whose result may be another tomorrow")
    return name


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
