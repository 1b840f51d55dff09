"""Fitted estimators on disk: a Zarr group of arrays and JSON, nothing that runs code when it is read."""

__all__: list[str] = []
