"""Checks of scikit-learn that cannot apply to estimators of sentences, and why.

Their tags say that they take texts or sequences of vectors, so scikit-learn asks them only what needs no data.
"""

EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "SentenceRepresentation": {},
    "WordVectorRepresentation": {},
    "IntentClassifier": {},
    "TreePCA": {},
}
