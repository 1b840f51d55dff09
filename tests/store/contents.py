"""What lies in a store, byte by byte."""

import hashlib
from pathlib import Path


def contents(folder):
    """Digest of each file; files that a killed writer left aside are no part of a store."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.suffix != ".partial"
    }


def with_entry(X, row, column, value):
    """A copy of a dense matrix with another entry."""
    X = X.copy()
    X[row, column] = value
    return X
