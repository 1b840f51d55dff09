"""Rows for tests of plans."""

import dask.array as da


def rows_of(n_blocks: int, n_columns: int = 40, block_rows: int = 30) -> da.Array:
    return da.random.default_rng(0).standard_normal(
        (n_blocks * block_rows, n_columns), chunks=(block_rows, -1)
    )
