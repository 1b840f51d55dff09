"""Checks of scikit-learn that cannot apply to estimators of words, by estimator, with the reason."""

TAKES_SENTENCES = "takes sentences, lists of tokens, where this check gives a matrix of numbers"

EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "WordEmbedding": {"check_estimators_overwrite_params": TAKES_SENTENCES},
    "SpectralBrownClustering": {"check_estimators_overwrite_params": TAKES_SENTENCES},
}
