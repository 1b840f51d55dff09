"""Fits and builds: which one runs, and which of its passes this is."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeAlias, TypeVar, cast
from uuid import uuid4

from dspectral.engine.events import Certified, FitBegan, FitEnded
from dspectral.engine.keeping.contents import Contents
from dspectral.engine.keeping.kept_folder import keep, says_keep
from dspectral.engine.telling import client_in_force, is_heard, tell

P = ParamSpec("P")
R = TypeVar("R")


class Fit:
    """A fit or a build that runs."""

    def __init__(self, name: str, n_passes: int | None = None, owner: object = None) -> None:
        self.token = uuid4().hex
        self.name = name
        self.n_passes = n_passes
        self.n_begun = 0
        self.owner = owner
        self.contents = Contents()


_FIT: ContextVar[Fit | None] = ContextVar("fit", default=None)
_COUNTS: ContextVar[bool | None] = ContextVar("counts", default=None)
Planner: TypeAlias = Callable[..., object]
_PLANNER: ContextVar[Planner | None] = ContextVar("planner", default=None)


class OnlyPlannedError(Exception):
    """Ends a program that is only planned, where it would begin to read its data for something else than a fit."""


def fit_in_force() -> Fit | None:
    """Return the innermost fit that runs in this thread."""
    return _FIT.get()


@contextmanager
def fitting(name: str, n_passes: int | None = None, owner: object = None) -> Iterator[Fit]:
    """Tell that a fit begins and ends; the passes of the body are its passes."""
    outer = _FIT.get()
    fit = Fit(name, n_passes, owner)
    client = client_in_force() if is_heard() else None
    tell(FitBegan(fit.token, name, outer.token if outer else "", n_passes), client)
    tokens = _FIT.set(fit), _COUNTS.set(None)
    start, error = time.perf_counter(), ""
    try:
        yield fit
        certificate = getattr(owner, "certificate_", None)
        if certificate is not None:
            found = float(certificate.absolute), float(certificate.relative)
            tell(Certified(fit.token, name, *found), client)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        _FIT.reset(tokens[0])
        _COUNTS.reset(tokens[1])
        tell(FitEnded(fit.token, name, fit.n_begun, time.perf_counter() - start, error), client)


def told(function: Callable[P, R]) -> Callable[P, R]:
    """Make a method ``fit``, or a function that builds, tell its events.

    >>> @told
    ... def build():
    ...     return fit_in_force().name
    >>> build()
    'build'
    """
    is_method = "." in function.__qualname__.rpartition("<locals>.")[2]

    @wraps(function)
    def telling(*args: P.args, **kwargs: P.kwargs) -> R:
        planner, running = _PLANNER.get(), _FIT.get()
        if planner is not None and running is None:
            return cast("R", planner(telling, *args, **kwargs))
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

    return says_keep(telling) if is_method else telling


@contextmanager
def only_planned(planner: Planner) -> Iterator[None]:
    """Let fits and builds of the body be planned and not run."""
    token = _PLANNER.set(planner)
    try:
        yield
    finally:
        _PLANNER.reset(token)


@contextmanager
def not_planned() -> Iterator[None]:
    """Let fits of the body run, also where they would only be planned."""
    token = _PLANNER.set(None)
    try:
        yield
    finally:
        _PLANNER.reset(token)


def expect_passes(n_passes: int, *, anew: bool = False) -> None:
    """Say how many more passes the fit in force will make, from now on."""
    fit = _FIT.get()
    if fit is not None and (anew or fit.n_passes is None):
        fit.n_passes = fit.n_begun + n_passes


@contextmanager
def numbered(*, is_pass: bool) -> Iterator[None]:
    """Say whether what runs in the body reads the data once."""
    token = _COUNTS.set(is_pass)
    try:
        yield
    finally:
        _COUNTS.reset(token)


def next_number(*, is_pass: bool) -> int | None:
    """Return the number of the pass that begins now."""
    fit, said = _FIT.get(), _COUNTS.get()
    planner = _PLANNER.get()
    if planner is not None and fit is None and is_pass and getattr(planner, "has_planned", False):
        raise OnlyPlannedError
    if fit is None or not (is_pass if said is None else said):
        return None
    fit.n_begun += 1
    return fit.n_begun
