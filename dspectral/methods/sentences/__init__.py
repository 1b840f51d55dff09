"""Sentence representations and an intent classifier."""

__all__: list[str] = []
