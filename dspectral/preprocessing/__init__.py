"""Transformers from texts to rows: hashed n-grams, and weights learned from counts."""
