"""Fits and builds: which one runs, which of its passes this is, and where finished parts of them are kept."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from os import PathLike, fspath
from os.path import expanduser
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast
from urllib.parse import unquote
from uuid import uuid4

from dspectral.engine.blas import blas_in_one_thread
from dspectral.engine.events import Certified, FitBegan, FitEnded, client_in_force, emit, has_listeners

P = ParamSpec("P")
R = TypeVar("R")
Place: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]
"""The URL of a folder, of which a local path is absolute, and storage options as pairs."""


@dataclass(eq=False)
class Fit:
    """A fit or a build that runs; ``counts`` says whether what begins now reads the data once, where that is said."""

    name: str
    n_passes: int | None = None
    owner: object = None
    scratch: str | None = None
    n_begun: int = 0
    counts: bool | None = None
    token: str = field(default_factory=lambda: uuid4().hex)


_FIT: ContextVar[Fit | None] = ContextVar("fit", default=None)
Planner: TypeAlias = Callable[..., object]
_PLANNER: ContextVar[Planner | None] = ContextVar("planner", default=None)
_UNSET: Place = ("", ())
_KEPT: ContextVar[Place | None] = ContextVar("kept", default=_UNSET)


class FirstPass(Exception):  # noqa: N818  no error: it ends a fit that is only planned, at its first pass
    """Says what is known of the first pass of a fit that is only planned."""


def fit_in_force() -> Fit | None:
    """Return the innermost fit that runs in this thread."""
    return _FIT.get()


@contextmanager
def fitting(name: str, n_passes: int | None = None, owner: object = None) -> Iterator[Fit]:
    """Emit that a fit begins and ends, number the passes in it, and give BLAS one thread, for the same bits."""
    outer = _FIT.get()
    fit = Fit(name, n_passes, owner, outer.scratch if outer else None)
    client = client_in_force() if has_listeners() else None
    emit(FitBegan(fit.token, name, outer.token if outer else "", n_passes), client)
    token = _FIT.set(fit)
    start, error = time.perf_counter(), ""
    try:
        with blas_in_one_thread():
            yield fit
        certificate = getattr(owner, "certificate_", None)
        if certificate is not None:
            found = float(certificate.absolute), float(certificate.relative)
            emit(Certified(fit.token, name, *found), client)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        _FIT.reset(token)
        emit(FitEnded(fit.token, name, fit.n_begun, time.perf_counter() - start, error), client)


def emits_events(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a ``fit`` method or a builder: emit ``FitBegan`` and ``FitEnded``, and number the passes inside.

    The argument ``keep`` of a method is applied here, and is not passed to the method.
    """
    is_method = "." in function.__qualname__.rpartition("<locals>.")[2]

    @wraps(function)
    def emitting(*args: P.args, **kwargs: P.kwargs) -> R:
        planner, running = _PLANNER.get(), _FIT.get()
        if planner is not None and running is None:
            return cast("R", planner(emitting, *args, **kwargs))
        if not is_method:
            # What a build writes goes on where it was, and need not be kept twice.
            with fitting(function.__name__), keep(None):
                return function(*args, **kwargs)
        owner, url = args[0], kwargs.pop("keep", None)
        with nullcontext() if url is None else keep(url):  # type: ignore[arg-type]
            if running is not None and running.owner is owner:
                return function(*args, **kwargs)
            with fitting(type(owner).__name__, owner=owner):
                return function(*args, **kwargs)

    return emitting


def expand_path(path: str | PathLike[str]) -> str:
    """Return a path or URL as text: the local path of a ``file://`` URL, with ``~`` and ``~user`` expanded.

    >>> expand_path(Path("a", "b c")), expand_path("file:///a/b%20c"), expand_path("s3://a/b%20c")
    ('a/b c', '/a/b c', 's3://a/b%20c')
    """
    if not isinstance(path, str | PathLike) or not isinstance(text := fspath(path), str) or not text:
        raise TypeError(
            f"the path is {path!r:.60}, but it must be a local path or a URL: give a str or a Path"
        )
    scheme, is_url, rest = text.partition("://")
    if is_url and scheme in ("file", "local") and "::" not in text:
        text, is_url = unquote(rest.removeprefix("localhost")), ""
    # A name like "~notes.txt", of no user, stays as it is, as at a shell.
    return text if is_url or "::" in text else expanduser(text)  # noqa: PTH111


def place_of(url: str | PathLike[str], storage_options: dict[str, Any] | None = None) -> Place:
    """Return the folder that a user named; a local path is made absolute, as workers have folders of their own."""
    place = expand_path(url)
    is_url = "://" in place or "::" in place
    return place if is_url else str(Path(place).absolute()), tuple(sorted((storage_options or {}).items()))


@contextmanager
def keep(url: str | Path | None, *, storage_options: dict[str, Any] | None = None) -> Iterator[None]:
    """Keep finished parts of every pass in the context, so that a fit which is cut short goes on where it was.

    A fit that is called again reads what is in the folder and makes only what is missing, with the same bits.

    Parameters
    ----------
    url : str, Path or None
        Folder that all workers see, or any URL that fsspec knows, for any number of fits; None keeps nothing.
    storage_options : dict, optional
        Options of the file system.

    Notes
    -----
    Parts are found by what they are made of: the content of the blocks, the function with all that is bound to it,
    the code of dspectral, the versions of packages, and the kind of machine. A part that is damaged is made again with
    a warning. Content is known of stores and corpora of dspectral, and of arrays in memory; other lazy rows are
    refused. A part is written where making it again would take 20 times as long as writing it, and the result of each
    pass always.

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
    token = _KEPT.set(None if url is None else place_of(url, storage_options))
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept_in_force() -> Place | None:
    """Return the folder in which passes of this thread are kept."""
    place = _KEPT.get()
    if place is not _UNSET:
        return place
    import dask  # noqa: PLC0415  it takes long to import, and a fit comes later than an estimator

    url = dask.config.get("dspectral.keep", None)
    if url is not None and (not isinstance(url, str | PathLike) or not str(url)):
        raise ValueError(f"dspectral.keep is {url!r}, but it must be a folder or the URL of one")
    return None if url is None else place_of(url)


@contextmanager
def only_planned(planner: Planner) -> Iterator[None]:
    """Let a planner be called in place of fits and builds of the body."""
    token = _PLANNER.set(planner)
    try:
        yield
    finally:
        _PLANNER.reset(token)


@contextmanager
def planning(name: str, owner: object, scratch: str) -> Iterator[Fit]:
    """Let the body be a fit that ends at its first pass, of which no event tells and which writes into a folder."""
    fit = Fit(name, owner=owner, scratch=scratch)
    token, planner = _FIT.set(fit), _PLANNER.set(None)
    try:
        yield fit
    finally:
        _FIT.reset(token)
        _PLANNER.reset(planner)


def scratch_of_plan() -> str | None:
    """Return a new folder for what a fit or a build would write, if it is only planned."""
    fit = _FIT.get()
    return None if fit is None or fit.scratch is None else mkdtemp(dir=fit.scratch)


def expect_passes(n_passes: int, *, anew: bool = False) -> None:
    """Say how many more passes the fit in force will make, from now on."""
    fit = _FIT.get()
    if fit is not None and (anew or fit.n_passes is None):
        fit.n_passes = fit.n_begun + n_passes


@contextmanager
def numbered(*, is_pass: bool) -> Iterator[None]:
    """Say whether what runs in the body reads the data once."""
    fit = _FIT.get()
    before = None if fit is None else fit.counts
    if fit is not None:
        fit.counts = is_pass
    try:
        yield
    finally:
        if fit is not None:
            fit.counts = before


def has_number(*, is_pass: bool) -> bool:
    """Report whether what begins now is a pass of a fit."""
    fit = _FIT.get()
    return fit is not None and (is_pass if fit.counts is None else fit.counts)


def next_number(*, is_pass: bool) -> int | None:
    """Return the number of the pass that begins now."""
    fit = _FIT.get()
    if fit is None or not has_number(is_pass=is_pass):
        return None
    fit.n_begun += 1
    return fit.n_begun
