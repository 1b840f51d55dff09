"""Transformers from texts to rows: hashed n-grams, and weights learned from counts."""

__all__: list[str] = []
