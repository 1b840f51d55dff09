"""Count words in contexts, and scale the counts for decomposition."""

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.cooccurrence.scaling import ContextScaling

__all__ = ["ContextCounts", "ContextScaling"]
