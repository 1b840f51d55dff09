"""A disk that is full: the error of the system says so, but not which file was being written."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space left, a quota used up, a file as long as it may be."""


@contextmanager
def named_when_full(place: str) -> Iterator[None]:
    """Name the file for which there is no room, while the body writes it.

    >>> with named_when_full("counts/zarr.json"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: [Errno 28] No space left on device, free some and call it again: 'counts/zarr.json'
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        raise OSError(error.errno, f"{error.strerror}, free some and call it again", place) from error
