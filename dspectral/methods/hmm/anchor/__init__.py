"""Anchor hidden Markov models."""
