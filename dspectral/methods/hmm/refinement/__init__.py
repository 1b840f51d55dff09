"""Refinement hidden Markov models: labels split into latent refinements."""

__all__: list[str] = []
