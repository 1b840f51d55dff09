"""Hybrid and local latent semantic indexing."""
