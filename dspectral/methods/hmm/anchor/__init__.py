"""Anchor hidden Markov models."""

__all__: list[str] = []
