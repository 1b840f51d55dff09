"""Scores of predictions that scikit-learn does not have, as functions of arrays."""

from dspectral.metrics.clusters import average_mutual_information, cluster_counts
from dspectral.metrics.ranking import document_auc, find_hits, precision_at

__all__ = ["average_mutual_information", "cluster_counts", "document_auc", "find_hits", "precision_at"]
