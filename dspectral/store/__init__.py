"""Sparse counts in Zarr, and the text they come from."""
