"""Tree-structured multilinear principal components."""
