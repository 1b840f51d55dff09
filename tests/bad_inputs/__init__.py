"""Seeded bad and odd inputs for every public estimator, function and reader: right, or one sentence.

``python -m tests.bad_inputs N SEED`` tries N of them in a process with a deadline for each, and prints what went wrong.
"""
