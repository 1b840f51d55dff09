"""Sentence representations, and a classifier of intents."""

__all__: list[str] = []
