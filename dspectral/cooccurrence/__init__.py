"""Counts of words in their contexts, and how the counts are scaled before they are decomposed."""

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.cooccurrence.scaling import ContextScaling

__all__ = ["ContextCounts", "ContextScaling"]
