"""Seeded bad and odd inputs for every public estimator, function and reader: right, or one sentence."""
