"""Where finished parts of passes are kept: for a context, or by Dask's configuration."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from dspectral.engine.keeping.partials import Folder, Kept

F = TypeVar("F", bound=Callable[..., Any])

_ARGUMENT = """
keep : str or Path, optional
    Folder, or any URL that fsspec knows, for finished parts of the passes: if the fit is cut short, the same call goes
    on from there, with the same bits. By default the one in force, as :func:`dspectral.keep` says."""
_NOWHERE = Folder("")
_FOLDER: ContextVar[Folder | None] = ContextVar("folder", default=None)


@contextmanager
def keep(url: str | Path | None, *, storage_options: dict[str, Any] | None = None) -> Iterator[None]:
    """Keep finished parts of every pass in the context, so that a fit which is cut short goes on where it was.

    A fit that was killed, lost its scheduler, or sees a store to which rows were appended, is called again as it was:
    what is in the folder is read, and only what is missing is made. The result has the same bits.

    Parameters
    ----------
    url : str, Path or None
        Folder, on a path that all workers see, or any URL that fsspec knows. It may hold the parts of any number of
        fits. None keeps nothing, whatever is in force outside.
    storage_options : dict, optional
        Options of the file system.

    See Also
    --------
    forget : Remove what was kept.

    Notes
    -----
    Parts are found by what they are made of: the content of the blocks, the function with all that is bound to it, the
    code of dspectral, the versions of NumPy, SciPy and Numba, and the kind of machine. A part of anything else is not
    found, and one that is damaged is made again with a warning. Content is known of stores and corpora of dspectral,
    and of arrays in memory; other lazy rows are refused. A part is written where making it again would take 20 times
    as long as writing it, and the result of each pass always.

    The entry ``dspectral.keep`` of Dask's configuration names a folder for all fits, and the argument ``keep`` of every
    ``fit`` one for this fit. What is in the folder stays until :func:`forget` removes it.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD, forget, keep
    >>> with keep("memory://parts"):
    ...     model = TruncatedSVD(2).fit(np.eye(3))
    >>> forget("memory://parts").n_parts
    1
    """
    folder = _NOWHERE if url is None else Folder.of(url, storage_options)
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def folder_in_force() -> Folder | None:
    """Return the folder in which passes of this thread are kept."""
    folder = _FOLDER.get()
    if folder is not None:
        return None if folder == _NOWHERE else folder
    import dask  # noqa: PLC0415  it takes long to import, and a fit comes later than an estimator

    url = dask.config.get("dspectral.keep", None)
    if url is None:
        return None
    if not isinstance(url, str | Path) or not str(url):
        raise ValueError(f"dspectral.keep is {url!r}, but it must be a folder or the URL of one")
    return Folder.of(url)


def forget(url: str | Path, *, storage_options: dict[str, Any] | None = None) -> Kept:
    """Remove what :func:`keep` left in a folder, and nothing else that may be there.

    Parameters
    ----------
    url : str or Path
        The folder, or the URL of one.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Kept
        Number of parts that were removed, and their bytes.

    Examples
    --------
    >>> forget("memory://nothing-there")
    Kept(n_parts=0, n_bytes=0)
    """
    return Folder.of(url, storage_options).clear()


def says_keep(method: F) -> F:
    """Let the signature and the docstring of a method say its argument ``keep``."""
    known = inspect.signature(method)
    kinds = inspect.Parameter
    more = kinds("keep", kinds.KEYWORD_ONLY, default=None, annotation=str | Path | None)
    method.__signature__ = known.replace(parameters=[*known.parameters.values(), more])  # type: ignore[attr-defined]
    found = re.search(r"\n\n( *)Returns\n", method.__doc__ or "")
    if found:
        lines = _ARGUMENT.replace("\n", f"\n{found[1]}")
        method.__doc__ = (
            f"{(method.__doc__ or '')[: found.start()]}{lines}{(method.__doc__ or '')[found.start() :]}"
        )
    return method
