"""Settings of a machine rather than of a method, read from Dask's configuration; the tree that fan-in makes."""

from numbers import Integral
from typing import Any

__all__ = ["tree_depth"]


def get_fan_in() -> int:
    """Return how many neighboring summaries one merge takes: ``dspectral.fan-in``, 2 where it is not set."""
    return _get_integer("dspectral.fan-in", 2, least=2)


def count_merges(n_blocks: int, fan_in: int) -> list[int]:
    """Return the number of merges on each level above summaries of blocks."""
    numbers = []
    while n_blocks > 1:
        n_full, n_left = divmod(n_blocks, fan_in)
        numbers.append(n_full + (n_left > 1))
        n_blocks = n_full + (n_left > 0)
    return numbers


def tree_depth(n_blocks: int, fan_in: int | None = None) -> int:
    """Return the number of levels of merges above summaries of blocks."""
    return len(count_merges(n_blocks, get_fan_in() if fan_in is None else fan_in))


def get_n_retries() -> int:
    """Return how often a read, a write or a task is repeated after an error that may pass."""
    return _get_integer("dspectral.retries", 2, least=0)


def get_max_group_bytes() -> int:
    """Return how many bytes of small blocks one task reads together at the most."""
    return parse_size("dspectral.joined-bytes", _get_setting("dspectral.joined-bytes", "64 MiB"))


def get_in_memory_bytes() -> int:
    """Return up to how many bytes of stored entries a decomposition works in memory, an eighth of the limit at most."""
    value = _get_setting("dspectral.in-memory-bytes", "128 MiB")
    return min(parse_size("dspectral.in-memory-bytes", value), get_memory_limit() // 8)


def get_memory_limit() -> int:
    """Return how many bytes one method may hold in memory before it works on disk or in more passes."""
    return parse_size("dspectral.memory-limit", _get_setting("dspectral.memory-limit", "1 GiB"))


def get_explicit_memory_limit() -> int | None:
    """Return :func:`get_memory_limit` if the user has set it (larger work is then refused), or None."""
    return None if _get_setting("dspectral.memory-limit", None) is None else get_memory_limit()


def get_wait_warning() -> float:
    """Return after how many seconds in which nothing was done a pass on a cluster says what it waits for."""
    return _get_seconds("dspectral.wait-warning", "30 s")


def get_wait_limit() -> float:
    """Return after how many seconds a pass on a cluster ends that cannot go on."""
    return _get_seconds("dspectral.wait-limit", "300 s")


def requires_same_bits() -> bool:
    """Return whether passes are refused on a cluster whose machines may give different bits."""
    value = _get_setting("dspectral.same-bits", False)
    if value not in (True, False):
        raise ValueError(f"dspectral.same-bits is {value!r}, but it must be true or false")
    return bool(value)


def parse_size(name: str, value: object) -> int:
    """Return a size of memory that is given as a number or a text."""
    from dask.utils import parse_bytes  # noqa: PLC0415  as below

    try:
        return int(parse_bytes(value))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is {value!r}, but it must be a number of bytes such as '4 GB'") from error


def _get_integer(entry: str, default: int, *, least: int) -> int:
    value = _get_setting(entry, default)
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{entry} is {value!r}, but it must be a whole number of at least {least}")
    return int(value)


def _get_seconds(entry: str, default: str) -> float:
    from dask.utils import parse_timedelta  # noqa: PLC0415  as below

    value = _get_setting(entry, default)
    try:
        seconds = float(parse_timedelta(value))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"{entry} is {value!r}, but it must be a time such as '30 s'")
    return seconds


def _get_setting(entry: str, default: object) -> Any:
    import dask  # noqa: PLC0415  it takes long to import, and a fit comes later than an estimator

    return dask.config.get(entry, default)
