"""Arrays that came from another process lie where the computer's words begin."""

import copy
from functools import partial
from typing import Any

import numpy as np

from dspectral.types import is_sparse

PARTS = ("data", "indices", "indptr")
FEW = 100
"""A container of more values, the first of which is a word or number, is taken to hold no arrays: a vocabulary, say."""


def aligned(content: Any) -> Any:
    """Return the same content with arrays that begin at a multiple of their type's size, as new arrays do.

    Bytes that a process receives begin anywhere. NumPy adds up an array that is not aligned in pieces, so that a sum
    has other bits, and compiled loops are compiled anew for it.

    >>> at_three = np.frombuffer(bytearray(19), dtype=np.uint8)[3:].view(np.float64)
    >>> fine = np.ones(2)
    >>> moved, same = aligned((at_three, fine))
    >>> bool(at_three.flags.aligned), bool(moved.flags.aligned), same is fine
    (False, True, True)
    """
    if isinstance(content, np.ndarray):
        return content if content.flags.aligned else content.copy()
    if is_sparse(content):
        parts = {name: getattr(content, name) for name in PARTS if hasattr(content, name)}
        if aligned(parts) is not parts:
            content = copy.copy(content)
            content.__dict__.update(aligned(parts))
    elif isinstance(content, partial):
        bound = content.func, content.args, content.keywords
        function, given, named = map(aligned, bound)
        if not _same((function, given, named), bound):
            content = partial(function, *given, **named)
    elif isinstance(content, dict | tuple | list):
        content = _container(content)
    return content


def _container(content: Any) -> Any:
    values = content.values() if isinstance(content, dict) else content
    if len(content) > FEW and isinstance(next(iter(values)), str | bytes | int | float):
        return content
    moved = list(map(aligned, values))
    if _same(moved, values):
        return content
    if isinstance(content, dict):
        return dict(zip(content, moved, strict=True))
    return content._make(moved) if hasattr(content, "_make") else type(content)(moved)


def _same(moved: Any, content: Any) -> bool:
    return all(a is b for a, b in zip(moved, content, strict=True))
