"""Transformers from texts to rows: hashed n-grams, and weights learned from counts."""

from dspectral.preprocessing.hashing import NgramHashing
from dspectral.preprocessing.weighting import TfidfWeighting

__all__ = ["NgramHashing", "TfidfWeighting"]
