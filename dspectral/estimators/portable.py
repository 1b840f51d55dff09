"""Which classes a saved model may name: loading makes nothing else."""

from typing import Any

from sklearn.svm import LinearSVC

from dspectral.estimators.anchor_hmm import AnchorHMM
from dspectral.estimators.brown import SpectralBrownClustering
from dspectral.estimators.decomposition import SketchedPCA, TruncatedSVD
from dspectral.estimators.em_hmm import EMHMM
from dspectral.estimators.embedding import WordEmbedding
from dspectral.estimators.hybrid import HybridLSI
from dspectral.estimators.intent import Choice, IntentClassifier
from dspectral.estimators.local import LocalLSI
from dspectral.estimators.multilabel import MomentMultiLabelClassifier
from dspectral.estimators.quantizer import VectorQuantizer
from dspectral.estimators.refinement import RefinementHMM
from dspectral.estimators.sentence import SentenceRepresentation
from dspectral.estimators.spectrum import Certificate
from dspectral.estimators.term_similarity import TermSimilarity
from dspectral.estimators.tree_pca import TreePCA
from dspectral.estimators.word_vectors import WordVectorRepresentation
from dspectral.kernels.hashing import NgramHashing
from dspectral.solvers.agglomeration import Tree
from dspectral.solvers.refinements import Operators
from dspectral.solvers.sequences import HiddenMarkov
from dspectral.summaries.counts import DocumentFrequencies
from dspectral.summaries.directions import FrequentDirections
from dspectral.summaries.hinge import Relevancy
from dspectral.summaries.moments import Moments
from dspectral.types import Documents
from dspectral.weighting import Weighting

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
