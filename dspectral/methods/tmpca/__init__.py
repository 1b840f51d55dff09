"""Tree-structured multilinear principal components."""

from dspectral.methods.tmpca.streams import token_table

__all__ = ["token_table"]
