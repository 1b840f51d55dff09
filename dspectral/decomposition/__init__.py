"""Singular value decomposition and principal components, in passes over row blocks.

``SketchedPCA`` and ``TruncatedSVD`` are imported when they are asked for, with scikit-learn: a worker that only
summarizes blocks need not hold it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.plan import Plan, Solver
from dspectral.decomposition.random_range import RandomRange
from dspectral.decomposition.spectrum import Certificate, Spectrum, spectrum

if TYPE_CHECKING:
    from dspectral.decomposition.estimators import SketchedPCA, TruncatedSVD

__all__ = [
    "Certificate",
    "FrequentDirections",
    "GramProduct",
    "Moments",
    "Plan",
    "RandomRange",
    "SketchedPCA",
    "Solver",
    "Spectrum",
    "TruncatedSVD",
    "spectrum",
]


def __getattr__(name: str) -> Any:
    if name in ("SketchedPCA", "TruncatedSVD"):
        return getattr(import_module("dspectral.decomposition.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
