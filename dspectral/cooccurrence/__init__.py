"""Counts of words in their contexts, and how the counts are scaled before they are decomposed."""

from dspectral.cooccurrence.contexts import Context, ContextCounts, ContextSettings, Sides
from dspectral.cooccurrence.scaling import ContextScaling, CountTransform, Scaling

__all__ = [
    "Context",
    "ContextCounts",
    "ContextScaling",
    "ContextSettings",
    "CountTransform",
    "Scaling",
    "Sides",
]
