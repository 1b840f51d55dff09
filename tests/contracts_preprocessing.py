"""Checks of scikit-learn that cannot apply to transformers of texts and counts, and why."""

EXPECTED_FAILURES: dict[str, dict[str, str]] = {"NgramHashing": {}, "TfidfWeighting": {}}
