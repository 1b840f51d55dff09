"""Data to try things on, of any size and without a download."""

from dspectral.datasets.brown_model import BrownSample, brown_model_sentences
from dspectral.datasets.counts import TopicParameters, low_rank_counts, topic_parameters
from dspectral.datasets.dense import gaussian_rows, low_rank_axes, low_rank_rows
from dspectral.datasets.hidden_markov import (
    AnchorStream,
    LabelledStream,
    anchor_sentences,
    refinement_sequences,
)
from dspectral.datasets.labelled_documents import (
    StateParameters,
    labelled_counts,
    sample_labelled_documents,
    state_parameters,
)
from dspectral.datasets.standard_library import (
    Intents,
    LabelledDocuments,
    standard_library_documents,
    standard_library_intents,
)

__all__ = [
    "AnchorStream",
    "BrownSample",
    "Intents",
    "LabelledDocuments",
    "LabelledStream",
    "StateParameters",
    "TopicParameters",
    "anchor_sentences",
    "brown_model_sentences",
    "gaussian_rows",
    "labelled_counts",
    "low_rank_axes",
    "low_rank_counts",
    "low_rank_rows",
    "refinement_sequences",
    "sample_labelled_documents",
    "standard_library_documents",
    "standard_library_intents",
    "state_parameters",
    "topic_parameters",
]
