"""Spectral learning on text that does not fit in memory.

A block of rows leaves a small summary; summaries merge up a tree; a solver turns the last one into
parameters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspectral.decomposition.estimators import SketchedPCA, TruncatedSVD
    from dspectral.engine import projected_memory, summarize
    from dspectral.io.word2vec import read_word2vec, write_word2vec
    from dspectral.methods.brown.clustering import SpectralBrownClustering
    from dspectral.methods.brown.recipe import BrownRecipe
    from dspectral.methods.embeddings.recipe import EmbeddingRecipe
    from dspectral.methods.embeddings.word_embedding import WordEmbedding
    from dspectral.methods.hmm.anchor.estimator import AnchorHMM
    from dspectral.methods.hmm.anchor.points import AnchorRecipe
    from dspectral.methods.hmm.em import EMHMM
    from dspectral.methods.hmm.quantizer import VectorQuantizer
    from dspectral.methods.hmm.refinement.estimator import RefinementHMM
    from dspectral.methods.hmm.refinement.starts import RefinementRecipe
    from dspectral.methods.lsi.hybrid import HybridLSI
    from dspectral.methods.lsi.local import LocalLSI
    from dspectral.methods.lsi.term_similarity import TermSimilarity, term_similarity
    from dspectral.methods.multilabel.classifier import MomentMultiLabelClassifier
    from dspectral.methods.sentences.intent import IntentClassifier
    from dspectral.methods.sentences.mean_vectors import WordVectorRepresentation
    from dspectral.methods.sentences.representation import SentenceRecipe, SentenceRepresentation
    from dspectral.methods.tmpca.tree_pca import TreePCA
    from dspectral.persistence import load, save
    from dspectral.preprocessing.hashing import NgramHashing
    from dspectral.preprocessing.weighting import TfidfWeighting
    from dspectral.store.build import build_store
    from dspectral.store.corpus import build_corpus, open_corpus
    from dspectral.store.counts import open_store
    from dspectral.store.matrix import write_counts
    from dspectral.store.text_files import TextFiles
    from dspectral.store.vocabulary import VocabularySettings
    from dspectral.text.weighting import Weighting

__version__ = "0.1.0"

__all__ = [
    "EMHMM",
    "AnchorHMM",
    "AnchorRecipe",
    "BrownRecipe",
    "EmbeddingRecipe",
    "HybridLSI",
    "IntentClassifier",
    "LocalLSI",
    "MomentMultiLabelClassifier",
    "NgramHashing",
    "RefinementHMM",
    "RefinementRecipe",
    "SentenceRecipe",
    "SentenceRepresentation",
    "SketchedPCA",
    "SpectralBrownClustering",
    "TermSimilarity",
    "TextFiles",
    "TfidfWeighting",
    "TreePCA",
    "TruncatedSVD",
    "VectorQuantizer",
    "VocabularySettings",
    "Weighting",
    "WordEmbedding",
    "WordVectorRepresentation",
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
    "methods.hmm.anchor.estimator": ("AnchorHMM",),
    "methods.hmm.anchor.points": ("AnchorRecipe",),
    "decomposition.estimators": ("SketchedPCA", "TruncatedSVD"),
    "methods.brown.clustering": ("SpectralBrownClustering",),
    "methods.brown.recipe": ("BrownRecipe",),
    "methods.embeddings.recipe": ("EmbeddingRecipe",),
    "methods.embeddings.word_embedding": ("WordEmbedding",),
    "methods.lsi.hybrid": ("HybridLSI",),
    "methods.sentences.intent": ("IntentClassifier",),
    "methods.lsi.local": ("LocalLSI",),
    "methods.multilabel.classifier": ("MomentMultiLabelClassifier",),
    "methods.hmm.em": ("EMHMM",),
    "methods.hmm.quantizer": ("VectorQuantizer",),
    "methods.hmm.refinement.estimator": ("RefinementHMM",),
    "methods.sentences.mean_vectors": ("WordVectorRepresentation",),
    "methods.sentences.representation": ("SentenceRecipe", "SentenceRepresentation"),
    "methods.hmm.refinement.starts": ("RefinementRecipe",),
    "methods.lsi.term_similarity": ("TermSimilarity", "term_similarity"),
    "methods.tmpca.tree_pca": ("TreePCA",),
    "engine": ("projected_memory", "summarize"),
    "persistence": ("load", "save"),
    "preprocessing.hashing": ("NgramHashing",),
    "preprocessing.weighting": ("TfidfWeighting",),
    "store.build": ("build_store",),
    "store.corpus": ("build_corpus", "open_corpus"),
    "store.counts": ("open_store",),
    "store.matrix": ("write_counts",),
    "store.text_files": ("TextFiles",),
    "store.vocabulary": ("VocabularySettings",),
    "io.word2vec": ("read_word2vec", "write_word2vec"),
    "text.weighting": ("Weighting",),
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
