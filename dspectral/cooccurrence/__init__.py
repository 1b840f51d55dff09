"""Counts of words in their contexts, and how they are scaled."""
