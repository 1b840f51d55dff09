"""What scikit-learn's checks may not ask of the models of sequences."""

TAKES_SEQUENCES = "takes sentences, lists of tokens, where this check gives a matrix of numbers"
NEEDS_MATRIX = (
    "check_fit_score_takes_y",
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_pipeline_consistency",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_f_contiguous_array_estimator",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_fit1d",
    "check_fit2d_predict1d",
    "check_complex_data",
    "check_estimators_empty_data_messages",
)
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    name: dict.fromkeys(NEEDS_MATRIX, TAKES_SEQUENCES) for name in ("AnchorHMM", "EMHMM", "RefinementHMM")
}
"""Checks that cannot apply, by estimator, with the reason. VectorQuantizer passes every check."""
