"""Sentence representations, and a classifier of intents."""
