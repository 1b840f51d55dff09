"""Checks of scikit-learn that cannot apply to an estimator, with the reason: all apply to these two."""

EXPECTED_FAILURES: dict[str, dict[str, str]] = {"SketchedPCA": {}, "TruncatedSVD": {}}
