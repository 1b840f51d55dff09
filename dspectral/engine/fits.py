"""Fits and builds: which one runs, and which of its passes this is."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from tempfile import mkdtemp
from typing import ParamSpec, TypeAlias, TypeVar, cast
from uuid import uuid4

from dspectral.engine.blas import blas_in_one_thread
from dspectral.engine.events import Certified, FitBegan, FitEnded, client_in_force, emit, has_listeners
from dspectral.engine.kept_parts import keep, says_keep

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


_FIT: ContextVar[Fit | None] = ContextVar("fit", default=None)
_COUNTS: ContextVar[bool | None] = ContextVar("counts", default=None)
Planner: TypeAlias = Callable[..., object]
_PLANNER: ContextVar[Planner | None] = ContextVar("planner", default=None)
_SCRATCH: ContextVar[str | None] = ContextVar("scratch", default=None)


class FirstPass(Exception):  # noqa: N818  no error: it ends a fit that is only planned, at its first pass
    """Says what is known of the first pass of a fit that is only planned."""


def fit_in_force() -> Fit | None:
    """Return the innermost fit that runs in this thread."""
    return _FIT.get()


@contextmanager
def fitting(name: str, n_passes: int | None = None, owner: object = None) -> Iterator[Fit]:
    """Emit that a fit begins and ends, number the passes in it, and give BLAS one thread, for the same bits."""
    outer = _FIT.get()
    fit = Fit(name, n_passes, owner)
    client = client_in_force() if has_listeners() else None
    emit(FitBegan(fit.token, name, outer.token if outer else "", n_passes), client)
    tokens = _FIT.set(fit), _COUNTS.set(None)
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
        _FIT.reset(tokens[0])
        _COUNTS.reset(tokens[1])
        emit(FitEnded(fit.token, name, fit.n_begun, time.perf_counter() - start, error), client)


def emits_events(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a ``fit`` method or a builder: it emits ``FitBegan`` and ``FitEnded``, and numbers the passes inside."""
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

    return says_keep(emitting) if is_method else emitting


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
    fit = Fit(name, owner=owner)
    tokens = _FIT.set(fit), _COUNTS.set(None), _PLANNER.set(None), _SCRATCH.set(scratch)
    try:
        yield fit
    finally:
        for variable, token in zip((_FIT, _COUNTS, _PLANNER, _SCRATCH), tokens, strict=True):
            variable.reset(token)  # type: ignore[attr-defined]


def scratch_of_plan() -> str | None:
    """Return a new folder for what a fit or a build would write, if it is only planned."""
    folder = _SCRATCH.get()
    return None if folder is None else mkdtemp(dir=folder)


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


def has_number(*, is_pass: bool) -> bool:
    """Report whether what begins now is a pass of a fit."""
    said = _COUNTS.get()
    return _FIT.get() is not None and (is_pass if said is None else said)


def next_number(*, is_pass: bool) -> int | None:
    """Return the number of the pass that begins now."""
    fit = _FIT.get()
    if fit is None or not has_number(is_pass=is_pass):
        return None
    fit.n_begun += 1
    return fit.n_begun
