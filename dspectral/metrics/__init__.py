"""Scores of predictions against the truth: plain functions of arrays."""
