"""Generate data sets of any size, without a download."""

from dspectral.datasets.counts import low_rank_counts
from dspectral.datasets.hidden_markov import anchor_sentences, brown_model_sentences, refinement_sequences
from dspectral.datasets.labeled_documents import labeled_counts, sample_labeled_documents, state_parameters
from dspectral.datasets.random_blocks import gaussian_rows
from dspectral.datasets.standard_library import standard_library_documents, standard_library_intents

__all__ = [
    "anchor_sentences",
    "brown_model_sentences",
    "gaussian_rows",
    "labeled_counts",
    "low_rank_counts",
    "refinement_sequences",
    "sample_labeled_documents",
    "standard_library_documents",
    "standard_library_intents",
    "state_parameters",
]
