"""Singular value decomposition and principal components, in passes over row blocks."""
