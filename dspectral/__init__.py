"""Spectral learning on text that does not fit in memory.

A block of rows leaves a small summary; summaries merge up a tree; a solver turns the last one into
parameters.
"""

from dspectral.estimators.decomposition import SketchedPCA, TruncatedSVD
from dspectral.estimators.intent import IntentClassifier
from dspectral.estimators.sentence import SentenceRepresentation
from dspectral.graph import projected_memory, summarize
from dspectral.kernels.hashing import NgramHashing
from dspectral.models import load, save
from dspectral.store.build import build_store
from dspectral.store.corpus import build_corpus, open_corpus
from dspectral.store.counts import open_store
from dspectral.store.matrix import write_counts
from dspectral.store.vocabulary import VocabularySettings
from dspectral.weighting import Weighting

__version__ = "0.1.0"

__all__ = [
    "IntentClassifier",
    "NgramHashing",
    "SentenceRepresentation",
    "SketchedPCA",
    "TruncatedSVD",
    "VocabularySettings",
    "Weighting",
    "__version__",
    "build_corpus",
    "build_store",
    "load",
    "open_corpus",
    "open_store",
    "projected_memory",
    "save",
    "summarize",
    "write_counts",
]
