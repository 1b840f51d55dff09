"""Counts of words in their contexts, and how the counts are scaled before they are decomposed."""

from dspectral.cooccurrence.contexts import ContextCounts

__all__ = ["ContextCounts"]
