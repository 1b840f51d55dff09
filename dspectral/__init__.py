"""Spectral learning on text that does not fit in memory.

A block of rows leaves a small summary; summaries merge up a tree; a solver turns the last one into parameters.
"""

from dspectral.estimators.decomposition import SketchedPCA, TruncatedSVD

__version__ = "0.1.0"

__all__ = ["SketchedPCA", "TruncatedSVD", "__version__"]
