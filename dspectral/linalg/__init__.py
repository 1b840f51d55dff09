"""Numerical linear algebra on arrays in memory; nothing here knows of blocks, stores or schedulers."""

from dspectral.linalg import sparse_products
from dspectral.linalg.dense import leading_left, principal_axes, right_axes
from dspectral.linalg.lbfgs import AskTellLBFGS
from dspectral.linalg.panels import cut_runs
from dspectral.linalg.simplex import nearest_in_simplex
from dspectral.linalg.tensors import (
    OrthogonalCP,
    joint_diagonalize,
    power_method,
    simultaneous_diagonalization,
)

__all__ = [
    "AskTellLBFGS",
    "OrthogonalCP",
    "cut_runs",
    "joint_diagonalize",
    "leading_left",
    "nearest_in_simplex",
    "power_method",
    "principal_axes",
    "right_axes",
    "simultaneous_diagonalization",
    "sparse_products",
]
