"""Tree-structured multilinear principal components."""

from dspectral.methods.tmpca.streams import token_table
from dspectral.methods.tmpca.tree_pca import TreePCA

__all__ = ["TreePCA", "token_table"]
