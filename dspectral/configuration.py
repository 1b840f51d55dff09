"""Settings read from Dask's configuration, and the shape of the merge tree."""

from numbers import Integral
from typing import Any

__all__ = ["tree_depth"]


def get_fan_in() -> int:
    """Return the number of summaries in one merge: ``dspectral.fan-in``, 2 by default."""
    return _get_integer("dspectral.fan-in", 2, minimum=2)


def count_merges(n_blocks: int, fan_in: int) -> list[int]:
    """Return the number of merges on each level of the merge tree."""
    numbers = []
    while n_blocks > 1:
        n_full, n_rest = divmod(n_blocks, fan_in)
        numbers.append(n_full + (n_rest > 1))
        n_blocks = n_full + (n_rest > 0)
    return numbers


def tree_depth(n_blocks: int, fan_in: int | None = None) -> int:
    """Return the number of levels of the merge tree."""
    return len(count_merges(n_blocks, get_fan_in() if fan_in is None else fan_in))


def get_n_retries() -> int:
    """Return the maximum number of retries after transient errors: ``dspectral.retries``, 2 by default."""
    return _get_integer("dspectral.retries", 2, minimum=0)


def get_max_group_bytes() -> int:
    """Return the maximum bytes of a block group: ``dspectral.joined-bytes``, 64 MiB by default."""
    return parse_size("dspectral.joined-bytes", _get_setting("dspectral.joined-bytes", "64 MiB"))


def get_in_memory_bytes() -> int:
    """Return the maximum bytes of a matrix that is decomposed in memory, at most an eighth of the memory limit."""
    value = _get_setting("dspectral.in-memory-bytes", "128 MiB")
    return min(parse_size("dspectral.in-memory-bytes", value), get_memory_limit() // 8)


def get_memory_limit() -> int:
    """Return the bytes that a method may use before it works on disk or in more passes; 1 GiB by default."""
    return parse_size("dspectral.memory-limit", _get_setting("dspectral.memory-limit", "1 GiB"))


def get_explicit_memory_limit() -> int | None:
    """Return :func:`get_memory_limit` if the user has set it (larger work is then refused), or None."""
    return None if _get_setting("dspectral.memory-limit", None) is None else get_memory_limit()


def get_wait_warning() -> float:
    """Return the seconds without progress after which a pass on a cluster warns; 30 by default."""
    return _get_seconds("dspectral.wait-warning", "30 s")


def get_wait_limit() -> float:
    """Return the seconds without progress after which a pass on a cluster ends; 300 by default."""
    return _get_seconds("dspectral.wait-limit", "300 s")


def requires_same_bits() -> bool:
    """Return whether a cluster must have machines that give the same bits: ``dspectral.same-bits``."""
    value = _get_setting("dspectral.same-bits", False)
    if value not in (True, False):
        raise ValueError(f"dspectral.same-bits={value!r} must be true or false")
    return bool(value)


def parse_size(name: str, value: object) -> int:
    """Parse a number of bytes, a number or a text such as ``"4 GB"``; `name` is for the error."""
    from dask.utils import parse_bytes  # noqa: PLC0415  slow to import

    try:
        return int(parse_bytes(value))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}={value!r} must be a number of bytes such as '4 GB'") from error


def _get_integer(entry: str, default: int, *, minimum: int) -> int:
    value = _get_setting(entry, default)
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{entry}={value!r} must be an integer of at least {minimum}")
    return int(value)


def _get_seconds(entry: str, default: str) -> float:
    from dask.utils import parse_timedelta  # noqa: PLC0415  slow to import

    value = _get_setting(entry, default)
    try:
        seconds = float(parse_timedelta(value))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"{entry}={value!r} must be a positive time such as '30 s'")
    return seconds


def _get_setting(entry: str, default: object) -> Any:
    import dask  # noqa: PLC0415  slow to import

    return dask.config.get(entry, default)
