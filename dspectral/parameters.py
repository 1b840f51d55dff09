"""Validate parameters: numbers, sizes, flags, options and random states."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dspectral.types import format_value

R = TypeVar("R")
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
"""Types of ``random_state``, as in scikit-learn."""
MAX_INTEGER = 2**63 - 1
"""Largest int64."""
MAX_REAL = 1e100
"""Maximum of parameters whose products and squares must be finite."""
MAX_READS = 10**6
"""Maximum number of passes of a fit; a larger number is a mistake and would never finish."""
MAX_SIZE = 2**62
"""Largest accepted size; sums of two such sizes fit in 64 bits."""


def resolve_seed(random_state: RandomState, name: str = "random_state") -> int:
    """Return the integer seed of a random state, which estimators store as ``random_state_``."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    # True is an int in Python, but not meant as a seed.
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"{name}={format_value(random_state)} must be at least 0")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    raise TypeError(
        f"{name}={random_state!r} must be None, an integer, a numpy.random.RandomState or a numpy.random.Generator"
    )


def check_integer(name: str, value: object, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Return a parameter as an int; raise TypeError or ValueError unless it is one within the limits."""
    expected = _describe_range("an integer", at_least, at_most)
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name}={format_value(value)} must be {expected}")
    number = int(value)  # NumPy's narrow integers overflow
    if (at_least is not None and number < at_least) or (at_most is not None and number > at_most):
        raise ValueError(f"{name}={format_value(number)} must be {expected}")
    if abs(number) > MAX_INTEGER:
        raise ValueError(f"{name}={format_value(number)} must be {expected} that fits 64 bits")
    return number


def check_real(name: str, value: object, *, at_least: float | None = None, at_most: float | None = None) -> float:
    """Return a parameter as a finite float."""
    expected = _describe_range("a finite number", at_least, at_most)
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}={format_value(value)} must be {expected}")
    number = math.inf if isinstance(value, Integral) and abs(int(value)) > MAX_INTEGER else float(value)
    too_small = at_least is not None and number < at_least
    if not math.isfinite(number) or too_small or (at_most is not None and number > at_most):
        formatted_value = format_value(value if isinstance(value, Integral) else number)
        raise ValueError(f"{name}={formatted_value} must be {expected}")
    return number


def check_size(name: str, value: object) -> int:
    """Return a size or count of at least 1 as an int."""
    return check_integer(name, value, at_least=1, at_most=MAX_SIZE)


def check_flag(name: str, value: object) -> bool:
    """Return a parameter as a bool."""
    if not (isinstance(value, bool | np.bool_) or (isinstance(value, Integral) and value in (0, 1))):
        raise TypeError(f"{name}={format_value(value)} must be True or False")
    return bool(value)


def check_option(name: str, value: object, options: Sequence[Any]) -> Any:
    """Return a parameter if it is one of the options."""
    # Types are compared too, since 1 == 1.0 == True.
    for option in options:
        if type(option) is (str if isinstance(value, str) else type(value)) and value == option:
            return option
    raise ValueError(f"{name}={format_value(value)} must be one of {', '.join(map(repr, options))}")


def resolve_recipe(recipe: object, kind: type[R]) -> R:
    """Return the recipe of an estimator; None is the one with the defaults of its class."""
    if recipe is not None and not isinstance(recipe, kind):
        raise TypeError(f"recipe={recipe!r:.60} must be of type {kind.__name__} or None")
    return kind() if recipe is None else recipe


def _describe_range(kind: str, at_least: float | None, at_most: float | None) -> str:
    if at_least is not None and at_most is not None:
        return f"{kind} from {at_least} to {at_most}"
    if at_least is not None:
        return f"{kind} of at least {at_least}"
    return kind if at_most is None else f"{kind} of at most {at_most}"
