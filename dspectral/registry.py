"""Which classes a saved model may name: loading makes nothing else."""

from typing import Any

from sklearn.svm import LinearSVC

from dspectral.decomposition.estimators import SketchedPCA, TruncatedSVD
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import Moments
from dspectral.decomposition.spectrum import Certificate
from dspectral.methods.brown.cluster_tree import Tree
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.embeddings.word_embedding import WordEmbedding
from dspectral.methods.hmm.anchor.estimator import AnchorHMM
from dspectral.methods.hmm.em import EMHMM
from dspectral.methods.hmm.inference import HiddenMarkov
from dspectral.methods.hmm.quantizer import VectorQuantizer
from dspectral.methods.hmm.refinement.estimator import RefinementHMM
from dspectral.methods.hmm.refinement.operators import Operators
from dspectral.methods.lsi.hybrid import HybridLSI
from dspectral.methods.lsi.local import LocalLSI
from dspectral.methods.lsi.squared_hinge import Relevancy
from dspectral.methods.lsi.term_similarity import TermSimilarity
from dspectral.methods.multilabel.classifier import MomentMultiLabelClassifier
from dspectral.methods.sentences.document_frequencies import DocumentFrequencies
from dspectral.methods.sentences.intent import Choice, IntentClassifier
from dspectral.methods.sentences.mean_vectors import WordVectorRepresentation
from dspectral.methods.sentences.representation import SentenceRepresentation
from dspectral.methods.tmpca.tree_pca import TreePCA
from dspectral.text.hashing import NgramHashing
from dspectral.text.weighting import Weighting
from dspectral.types import Documents

ESTIMATORS: dict[str, Any] = {
    "AnchorHMM": AnchorHMM,
    "EMHMM": EMHMM,
    "HybridLSI": HybridLSI,
    "IntentClassifier": IntentClassifier,
    "LocalLSI": LocalLSI,
    "MomentMultiLabelClassifier": MomentMultiLabelClassifier,
    "SentenceRepresentation": SentenceRepresentation,
    "SketchedPCA": SketchedPCA,
    "SpectralBrownClustering": SpectralBrownClustering,
    "TreePCA": TreePCA,
    "TruncatedSVD": TruncatedSVD,
    "WordEmbedding": WordEmbedding,
    "RefinementHMM": RefinementHMM,
    "VectorQuantizer": VectorQuantizer,
    "WordVectorRepresentation": WordVectorRepresentation,
    "sklearn.svm.LinearSVC": LinearSVC,
}
"""Made from their parameters, then given their fitted attributes."""
RECORDS: dict[str, Any] = {
    "Certificate": Certificate,
    "Choice": Choice,
    "DocumentFrequencies": DocumentFrequencies,
    "Documents": Documents,
    "FrequentDirections": FrequentDirections,
    "HiddenMarkov": HiddenMarkov,
    "Moments": Moments,
    "NgramHashing": NgramHashing,
    "Operators": Operators,
    "Relevancy": Relevancy,
    "TermSimilarity": TermSimilarity,
    "Tree": Tree,
    "Weighting": Weighting,
}
"""Named tuples, made from their fields."""
