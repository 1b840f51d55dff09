"""Readers of data, features and baselines, which programs are made of."""
