"""Reproducible sums: one BLAS thread, aligned arrays, and a record of the libraries and the processor."""

import copy
import os
import platform
import sys
from contextlib import AbstractContextManager
from functools import cache, partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock, current_thread, main_thread
from types import TracebackType
from typing import Any, Self

import numpy as np
import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that the controller below sees it
from threadpoolctl import OpenBLASController, ThreadpoolController

from dspectral._compiled import get_loop_cpu
from dspectral.types import is_sparse

CSR_ARRAYS = ("data", "indices", "indptr")
PACKAGES = ("dspectral", "numpy", "scipy", "numba", "dask", "distributed", "zarr", "threadpoolctl")
MAX_SCANNED_LENGTH = 100
"""Longer containers whose first value is a string or number are assumed to hold no arrays, such as a vocabulary."""


def blas_in_one_thread() -> "BlasGate":
    """Return a reentrant context that limits BLAS to one thread and ignores underflow."""
    return BlasGate()


def blas_libraries() -> str:
    """Return the BLAS libraries of this process with their versions and the processor architecture of their kernels."""
    libraries = {
        " ".join(str(library.get(part) or "") for part in ("internal_api", "version", "architecture")).strip()
        for library in _get_controller().info()
        if library["user_api"] == "blas"
    }
    return ", ".join(sorted(libraries))


class BlasGate(AbstractContextManager[Any]):
    """Context manager that sets the limit when the first task enters and restores it when the last one exits."""

    # Class attributes: all instances of a process share one count and one limit.
    _lock = Lock()
    _inside = 0
    _limit: Any = None

    @classmethod
    def count_free_threads(cls) -> int:
        """Return how many threads a function in this context may start: 1 during a pass, and in tasks of workers."""
        is_task = current_thread() is not main_thread()
        return 1 if is_task or cls._inside > 2 else int(cls._limit.get_original_num_threads()["blas"] or 1)

    @classmethod
    def reset_after_fork(cls) -> None:
        """Reset the count in a forked child, where the tasks of the parent do not run."""
        cls._lock = Lock()
        if cls._inside:
            cls._inside = 1
            cls().__exit__(None, None, None)

    def __enter__(self) -> Self:
        self._errors = np.errstate(under="ignore")
        self._errors.__enter__()
        # Hold the lock until the limit is set, so that no second task computes before.
        with BlasGate._lock:
            if BlasGate._inside == 0:
                _reset_controlling_thread()
                BlasGate._limit = _get_controller().limit(limits=1, user_api="blas")
            BlasGate._inside += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if error_state := vars(self).pop("_errors", None):  # absent if the process was forked inside the context
            error_state.__exit__(kind, error, trace)
        with BlasGate._lock:
            BlasGate._inside -= 1
            if BlasGate._inside == 0:
                _reset_controlling_thread()
                BlasGate._limit.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BlasGate.reset_after_fork)


@cache
def source_hash() -> str:
    """Return a hash of all source files of dspectral; it differs between checkouts of one version."""
    root = Path(__file__).parents[1]
    source_digest = blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        source_digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return source_digest.hexdigest()


@cache
def numeric_environment() -> dict[str, str]:
    """Return the versions, BLAS, processor and source hash on which the last bits of results depend."""
    versions = {"Python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # importable, but not installed
            versions[package] = str(getattr(sys.modules.get(package), "__version__", "absent"))
    return versions | {"BLAS": blas_libraries(), "Numba": get_loop_cpu(), "source of dspectral": source_hash()[:12]}


def _reset_controlling_thread() -> None:
    """Allow this thread to set the limits of OpenBLAS; threadpoolctl 3.8 only allows the first thread that did."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


# Cached: the controller scans all loaded libraries, which takes longer than a small task.
@cache
def _get_controller() -> ThreadpoolController:
    return ThreadpoolController()


def copy_unaligned(content: Any) -> Any:
    """Return the content with unaligned arrays copied, because their sums round differently."""
    if isinstance(content, np.ndarray):
        return content if content.flags.aligned else content.copy()
    if is_sparse(content):
        parts = {name: getattr(content, name) for name in CSR_ARRAYS if hasattr(content, name)}
        if copy_unaligned(parts) is not parts:
            content = copy.copy(content)
            content.__dict__.update(copy_unaligned(parts))
    elif isinstance(content, partial):
        bound = content.func, content.args, content.keywords
        function, arguments, keywords = map(copy_unaligned, bound)
        if not _is_same((function, arguments, keywords), bound):
            content = partial(function, *arguments, **keywords)
    elif isinstance(content, dict | tuple | list):
        content = _align_container(content)
    return content


def _align_container(content: Any) -> Any:
    values = content.values() if isinstance(content, dict) else content
    if len(content) > MAX_SCANNED_LENGTH and isinstance(next(iter(values)), str | bytes | int | float):
        return content
    aligned = list(map(copy_unaligned, values))
    if _is_same(aligned, values):
        return content
    if isinstance(content, dict):
        return dict(zip(content, aligned, strict=True))
    return content._make(aligned) if hasattr(content, "_make") else type(content)(aligned)


def _is_same(aligned: Any, content: Any) -> bool:
    return all(a is b for a, b in zip(aligned, content, strict=True))
