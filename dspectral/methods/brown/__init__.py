"""Brown clusters of words."""

from dspectral.methods.brown.cluster_tree import ClusterTree
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.brown.recipe import BrownRecipe

__all__ = ["BrownRecipe", "ClusterTree", "SpectralBrownClustering"]
