"""Generate data sets of any size, without a download."""

from dspectral.datasets.counts import low_rank_counts
from dspectral.datasets.labeled_documents import labeled_counts, sample_labeled_documents, state_parameters
from dspectral.datasets.standard_library import standard_library_documents, standard_library_intents

__all__ = [
    "labeled_counts",
    "low_rank_counts",
    "sample_labeled_documents",
    "standard_library_documents",
    "standard_library_intents",
    "state_parameters",
]
