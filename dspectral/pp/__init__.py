"""Preprocessing of cells under scanpy's names, in memory and out of core, and their principal components."""

from dspectral.pp.components import pca
from dspectral.pp.steps import log1p, normalize_total, scale
from dspectral.pp.variable_genes import highly_variable_genes

__all__ = ["highly_variable_genes", "log1p", "normalize_total", "pca", "scale"]
