"""A plan before the run: a short probe on a few blocks, extended to the whole, and held against what there is."""
