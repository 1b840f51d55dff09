"""Digests of content: what a chunk's checksum cannot tell, that an array is the one that was written here.

A checksum of Zarr holds for one chunk of bytes. A block that was exchanged for another one, a size or a sum that was
edited, has right checksums everywhere. So the mark of a block repeats a digest of its arrays, and the root one of
all marks.
"""

import json
from hashlib import blake2b
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dspectral.types import JSON

SEAL = "seal"
"""Attribute beside sealed content."""


def digest_of(*arrays: NDArray[Any]) -> int:
    """Return the CRC-32C of arrays, their types and lengths.

    About 9 GB a second: hardware computes it. It is no protection against somebody who means to deceive.

    >>> digest_of(np.arange(3)) == digest_of(np.arange(3)), digest_of(np.arange(3)) == digest_of(np.arange(3.0))
    (True, False)
    """
    crc = 0
    for array in arrays:
        # Type and shape first: the same bytes as another type, or cut otherwise, are other content.
        crc = google_crc32c.extend(crc, f"{array.dtype.str}{array.shape}".encode())
        crc = google_crc32c.extend(crc, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return int(crc)


def seal_of(content: JSON) -> str:
    """Return a digest of content that JSON knows.

    >>> seal_of({"a": 1, "b": [2]}) == seal_of({"b": [2], "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def is_sealed(content: dict[str, Any]) -> bool:
    """Report whether content is as it was sealed.

    >>> is_sealed(sealed({"a": 1})), is_sealed({**sealed({"a": 1}), "a": 2})
    (True, False)
    """
    return content.get(SEAL) == seal_of({key: value for key, value in content.items() if key != SEAL})


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return content with its seal."""
    return {**content, SEAL: seal_of(content)}
