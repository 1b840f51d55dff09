"""What may become of an input: a result, or one sentence of this library or of scikit-learn's validation."""

import dis
import traceback
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

LONGEST_SENTENCE = 800
NOT_FINITE = "the result holds NaN or infinity, and nothing was said"
RAISES = ("RAISE_VARARGS", "RERAISE")
HOMES = ("/dspectral/",)
VALIDATION = ("/sklearn/",)


class Outcome(NamedTuple):
    """What a call ended in: its result, what it raised, and what is wrong with how it ended."""

    value: Any
    error: Exception | None
    fault: str | None


def outcome(call, *, allowed=(ValueError, TypeError)):
    """Call a function of no arguments and judge how it ends."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            value = call()
        except Exception as error:  # noqa: BLE001  whatever it raises is judged
            return Outcome(None, error, fault_of(error, allowed))
    odd = [w for w in told if issubclass(w.category, RuntimeWarning) and not ours(w)]
    if odd:
        return Outcome(value, None, f"RuntimeWarning: {odd[0].message} ({odd[0].filename}:{odd[0].lineno})")
    return Outcome(value, None, not_finite(value))


def ours(warning):
    """Whether a warning is a sentence of this library rather than one of a computation that went wrong."""
    return not any(word in str(warning.message) for word in ("encountered", "invalid value", "Mean of empty"))


def fault_of(error, allowed):
    """Return what is wrong with an error, or None for one sentence that somebody wrote for this case."""
    kind, text = type(error), str(error)
    where = innermost(error)
    shown = f"{kind.__name__}: {text[:200]} at {where[0]}:{where[1]}"
    if not isinstance(error, allowed):
        return f"not a sentence: {shown}"
    file, _, raised = where
    long = len(text) > LONGEST_SENTENCE and not any(home in file for home in VALIDATION)  # which shows arrays
    if not text or long or "Traceback" in text:
        return f"no sentence: {shown}"
    if "/sklearn/utils/" in files_of(error):  # scikit-learn hands on what pandas says of its own tables
        return None
    if any(home in file for home in VALIDATION) or (raised and any(home in file for home in HOMES)):
        return None
    return f"raw error: {shown}"


def files_of(error):
    """Return the files behind the last frame of this library."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    last = max((i for i, file in enumerate(files) if any(home in file for home in HOMES)), default=-1)
    return " ".join(files[last + 1 :])


def innermost(error):
    """Return the file and line that raised, and whether a ``raise`` stands there."""
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    code = step.tb_frame.f_code
    by_place = {one.offset: one.opname for one in dis.get_instructions(code)}
    return code.co_filename, step.tb_lineno, by_place.get(step.tb_lasti, "") in RAISES


def not_finite(value):
    """Return a fault if numbers of a result are NaN or infinite, or None."""
    for array in arrays(value):
        if array.dtype.kind in "fc" and not np.all(np.isfinite(array)):
            return NOT_FINITE
    return None


def arrays(value):
    """Yield the arrays of numbers in a result."""
    if hasattr(value, "compute"):
        value = value.compute()
    if sparse.issparse(value):
        yield value.data
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, float | np.floating):
        yield np.asarray(value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from arrays(one)


def dense(value):
    """Return a result as an array in memory."""
    if hasattr(value, "compute"):
        value = value.compute()
    return value.toarray() if sparse.issparse(value) else np.asarray(value)


def differs(ours_, reference, *, tolerance):
    """Return how two results differ, or None."""
    a, b = dense(ours_), dense(reference)
    if a.shape != b.shape:
        return f"shape {a.shape}, but the reference has {b.shape}"
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None if a.tolist() == b.tolist() else "other values than the reference"
    scale = np.abs(b).max(initial=0.0)
    error = np.abs(a.astype(float) - b.astype(float)).max(initial=0.0)
    return None if error <= tolerance * max(scale, 1e-300) else f"off by {error:.3g} of {scale:.3g}"
