"""Tree-structured multilinear principal components."""

from dspectral.methods.tmpca.streams import make_token_table

__all__ = ["make_token_table"]
