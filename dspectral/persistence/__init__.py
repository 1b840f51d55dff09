"""Save and load fitted estimators as Zarr groups of arrays and JSON; loading runs no code from the file."""

__all__: list[str] = []
