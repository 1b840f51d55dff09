"""Checks of scikit-learn that cannot apply to the estimators of labels, and why."""

ONE_LABEL = "gives one label a document, but y is an indicator matrix"
COLUMNS = "asks which classes predict_proba has, but its columns are labels"
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "HybridLSI": {},
    "LocalLSI": {},
    "MomentMultiLabelClassifier": {
        "check_classifier_multioutput": "wants labels whose score is above 0, but predict returns the best ones",
        "check_classifier_not_supporting_multiclass": "wants the sentence of a classifier of two classes",
        "check_classifiers_classes": ONE_LABEL,
        "check_classifiers_one_label": ONE_LABEL,
        "check_classifiers_train": ONE_LABEL,
        "check_decision_proba_consistency": ONE_LABEL,
        "check_estimator_sparse_array": COLUMNS,
        "check_estimator_sparse_matrix": COLUMNS,
    },
}
