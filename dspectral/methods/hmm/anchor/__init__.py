"""Anchor hidden Markov models."""

from dspectral.methods.hmm.anchor.estimator import AnchorHMM
from dspectral.methods.hmm.anchor.points import AnchorRecipe

__all__ = ["AnchorHMM", "AnchorRecipe"]
