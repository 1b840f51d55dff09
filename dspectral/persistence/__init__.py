"""Fitted estimators on disk: a Zarr group of arrays and JSON, nothing that runs code when it is read."""

from dspectral.persistence.models import load, save

__all__ = ["load", "save"]
