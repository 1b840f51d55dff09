"""Spectral learning on text that does not fit in memory.

A block of rows leaves a small summary; summaries merge up a tree; a solver turns the last one into
parameters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspectral.estimators.anchor_hmm import AnchorHMM
    from dspectral.estimators.brown import SpectralBrownClustering
    from dspectral.estimators.decomposition import SketchedPCA, TruncatedSVD
    from dspectral.estimators.em_hmm import EMHMM
    from dspectral.estimators.embedding import WordEmbedding
    from dspectral.estimators.hybrid import HybridLSI
    from dspectral.estimators.intent import IntentClassifier
    from dspectral.estimators.local import LocalLSI
    from dspectral.estimators.multilabel import MomentMultiLabelClassifier
    from dspectral.estimators.quantizer import VectorQuantizer
    from dspectral.estimators.refinement import RefinementHMM
    from dspectral.estimators.sentence import SentenceRepresentation
    from dspectral.estimators.term_similarity import TermSimilarity, term_similarity
    from dspectral.estimators.tree_pca import TreePCA
    from dspectral.graph import projected_memory, summarize
    from dspectral.kernels.hashing import NgramHashing
    from dspectral.models import load, save
    from dspectral.store.build import build_store
    from dspectral.store.corpus import build_corpus, open_corpus
    from dspectral.store.counts import open_store
    from dspectral.store.matrix import write_counts
    from dspectral.store.vocabulary import VocabularySettings
    from dspectral.store.word2vec import read_word2vec, write_word2vec
    from dspectral.weighting import Weighting

__version__ = "0.1.0"

__all__ = [
    "EMHMM",
    "AnchorHMM",
    "HybridLSI",
    "IntentClassifier",
    "LocalLSI",
    "MomentMultiLabelClassifier",
    "NgramHashing",
    "RefinementHMM",
    "SentenceRepresentation",
    "SketchedPCA",
    "SpectralBrownClustering",
    "TermSimilarity",
    "TreePCA",
    "TruncatedSVD",
    "VectorQuantizer",
    "VocabularySettings",
    "Weighting",
    "WordEmbedding",
    "__version__",
    "build_corpus",
    "build_store",
    "load",
    "open_corpus",
    "open_store",
    "projected_memory",
    "read_word2vec",
    "save",
    "summarize",
    "term_similarity",
    "write_counts",
    "write_word2vec",
]

_PLACES = {
    "estimators.anchor_hmm": ("AnchorHMM",),
    "estimators.decomposition": ("SketchedPCA", "TruncatedSVD"),
    "estimators.brown": ("SpectralBrownClustering",),
    "estimators.embedding": ("WordEmbedding",),
    "estimators.hybrid": ("HybridLSI",),
    "estimators.intent": ("IntentClassifier",),
    "estimators.local": ("LocalLSI",),
    "estimators.multilabel": ("MomentMultiLabelClassifier",),
    "estimators.em_hmm": ("EMHMM",),
    "estimators.quantizer": ("VectorQuantizer",),
    "estimators.refinement": ("RefinementHMM",),
    "estimators.sentence": ("SentenceRepresentation",),
    "estimators.term_similarity": ("TermSimilarity", "term_similarity"),
    "estimators.tree_pca": ("TreePCA",),
    "graph": ("projected_memory", "summarize"),
    "kernels.hashing": ("NgramHashing",),
    "models": ("load", "save"),
    "store.build": ("build_store",),
    "store.corpus": ("build_corpus", "open_corpus"),
    "store.counts": ("open_store",),
    "store.matrix": ("write_counts",),
    "store.vocabulary": ("VocabularySettings",),
    "store.word2vec": ("read_word2vec", "write_word2vec"),
    "weighting": ("Weighting",),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a worker that only sketches blocks need not hold scikit-learn, over 100 MB."""
    for module, names in _PLACES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"dspectral.{module}"), name)
            return value
    raise AttributeError(f"module 'dspectral' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
