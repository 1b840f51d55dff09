"""Refinement hidden Markov models: labels split into latent refinements."""
