"""The terms that a store of hashed n-grams has kept, as they are written and read."""

from typing import Any

import numpy as np

from dspectral.store.arrays import Location, read_array, write_array
from dspectral.store.packed_terms import pack, unpack
from dspectral.text.term_sample import KeptTerms, TermSample

KEY = "keep_terms"
"""Entry of a store's provenance: how many terms have names, missing where none do."""


def write_sample(where: Location, path: str, sample: TermSample) -> None:
    """Write a sample into a group of the store."""
    packed = np.concatenate([[sample.error], pack(sample.table)])
    write_array(where.open(read_only=False), f"{path}/terms", packed)


def read_sample(where: Location, path: str, size: int) -> TermSample:
    """Read a sample of so many terms at most."""
    packed = read_array(where, where.open(), path, "terms")
    return TermSample(unpack(packed[1:]), size, int(packed[0]))


def read_kept_terms(
    where: Location, path: str, provenance: dict[str, Any], n_columns: int
) -> KeptTerms | None:
    """Read the terms that a store has kept."""
    if not provenance.get(KEY):
        return None
    store = where.open()
    sample = read_sample(where, path, provenance[KEY])
    columns, signs = (read_array(where, store, path, part) for part in ("term_columns", "term_signs"))
    return KeptTerms(sample.table, columns, signs, n_columns, sample.error)
