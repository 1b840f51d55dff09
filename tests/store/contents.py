"""What lies in a store, byte by byte."""

import hashlib
from pathlib import Path


def contents(folder):
    """Digest of each file, without manifests, which name the source, and files that a killed writer left aside."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.suffix != ".partial" and "plans" not in path.parts
    }


def with_entry(X, row, column, value):
    """A copy of a dense matrix with another entry."""
    X = X.copy()
    X[row, column] = value
    return X
