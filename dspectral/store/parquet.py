"""Parquet columns of text; pyarrow is the optional extra ``dspectral[text]``."""

from collections.abc import Iterator
from typing import Any

import fsspec

from dspectral.types import Documents


def row_groups(url: str, options: dict[str, Any]) -> int:
    """Return how many row groups a Parquet file has."""
    with fsspec.open(url, "rb", **options) as file:
        return int(_parquet().ParquetFile(file).num_row_groups)


def read_row_group(
    url: str, options: dict[str, Any], group: int, field: str, block_bytes: int
) -> Iterator[Documents]:
    """Yield the texts of a column of a row group, at most ``block_bytes`` at a time.

    Raises
    ------
    ValueError
        If there is no such column, or it holds nulls or no strings.
    """
    with fsspec.open(url, "rb", **options) as file:
        parquet = _parquet().ParquetFile(file)
        if field not in parquet.schema_arrow.names:
            raise ValueError(f"{url} has no column {field!r}, but {', '.join(parquet.schema_arrow.names)}")
        texts: list[str] = []
        n_bytes = 0
        for batch in parquet.iter_batches(row_groups=[group], columns=[field], batch_size=4096):
            for text in batch.column(0).to_pylist():
                if not isinstance(text, str):
                    raise ValueError(f"{url}, row group {group}: column {field!r} holds {text!r}, not text")
                size = len(text.encode())
                if texts and n_bytes + size > block_bytes:
                    yield Documents.of(texts)
                    texts, n_bytes = [], 0
                texts.append(text)
                n_bytes += size
        if texts:
            yield Documents.of(texts)


def _parquet() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'dspectral[text]'") from error
    return pyarrow.parquet
