"""Scores of predictions that scikit-learn does not have, as functions of arrays."""

from dspectral.metrics.ranking import document_auc, label_propensities, ndcg_at, precision_at, propensity_precision_at
from dspectral.metrics.sequences import (
    average_mutual_information,
    cluster_counts,
    frame_accuracy,
    label_error_rate,
    many_to_one,
    one_to_one,
    v_measure,
)
from dspectral.metrics.word_vectors import analogy_accuracy, word_similarity

__all__ = [
    "analogy_accuracy",
    "average_mutual_information",
    "cluster_counts",
    "document_auc",
    "frame_accuracy",
    "label_error_rate",
    "label_propensities",
    "many_to_one",
    "ndcg_at",
    "one_to_one",
    "precision_at",
    "propensity_precision_at",
    "v_measure",
    "word_similarity",
]
