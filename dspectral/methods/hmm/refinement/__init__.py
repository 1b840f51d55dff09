"""Refinement hidden Markov models: labels split into latent refinements."""

from dspectral.methods.hmm.refinement.estimator import RefinementHMM
from dspectral.methods.hmm.refinement.starts import RefinementRecipe

__all__ = ["RefinementHMM", "RefinementRecipe"]
