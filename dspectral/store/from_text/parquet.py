"""Parquet columns of text; pyarrow is the optional extra ``dspectral[text]``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dspectral.store.from_text.lines import MISSING, ReadOptions
from dspectral.store.from_text.streams import import_extra, open_raw
from dspectral.types import Documents, IntArray

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

_ROWS = 1024
_BATCH_BYTES = 4 << 20
_BUFFER = 1 << 20  # unbuffered, pyarrow reads a whole column chunk before its first row


def read_column_names(url: str, options: dict[str, Any]) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    with open_parquet(url, options) as file:
        return list(file.schema_arrow.names)


def count_row_groups(url: str, options: dict[str, Any], field: str, *, allow_numbers: bool = False) -> int:
    """Return the number of row groups of a Parquet file; only the footer is read."""
    with open_parquet(url, options) as file:
        schema = file.schema_arrow
        if schema.names.count(field) != 1:
            raise ValueError(f"{url} must have one column {field!r}, but its columns are {', '.join(schema.names)}")
        kind = schema.field(field).type
        if not (_holds_strings(kind) or (allow_numbers and import_arrow().types.is_integer(kind))):
            raise ValueError(f"{url}: column {field!r} has type {kind}, but must hold strings: name another field")
        return int(file.num_row_groups)


def iter_parquet_records(
    url: str, group: int, fields: Sequence[str], options: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the position and some fields of each row of a row group."""
    with open_parquet(url, options) as file:
        names, row = file.schema_arrow.names, 0
        if lacking := [field for field in fields if names.count(field) != 1]:
            raise ValueError(f"{url} must have one column {lacking[0]!r}, but its columns are {', '.join(names)}")
        for batch in file.iter_batches(row_groups=[group], columns=list(fields), batch_size=_ROWS):
            for number, record in enumerate(batch.to_pylist(), start=row):
                yield f"{url}, row group {group}, row {number}", record
            row += batch.num_rows


def read_row_group(url: str, group: int, field: str, read_options: ReadOptions) -> Iterator[Documents]:
    """Yield the texts of a column of a row group in batches of rows."""
    row, position = 0, f"{url}, row group {group}, row"
    text_field = read_options.text_field or field  # ids of rows without a text are skipped too
    with open_parquet(url, read_options.options) as file:
        n_rows = _get_batch_rows(file, group, field)
        # A row group may be larger than memory, so rows are read in batches; `row` is the index of the next one.
        fields = list(dict.fromkeys((field, text_field)))
        for batch in file.iter_batches(row_groups=[group], columns=fields, batch_size=n_rows):
            numbers = np.arange(row, row + batch.num_rows)
            row += batch.num_rows
            strings = _cast_to_strings(batch.column(field))
            if (is_given := _cast_to_strings(batch.column(text_field)).is_valid()).false_count:
                fault = f"column {text_field!r} holds a null, not a string; {MISSING}"
                strings, numbers = _handle_missing(
                    strings, numbers, is_given, read_options, f"{position} {{}}: {fault}"
                )
            if strings.null_count:
                null = int(np.flatnonzero(strings.is_null().to_numpy(zero_copy_only=False))[0])
                raise ValueError(f"{position} {numbers[null]}: column {field!r} holds a null, not a string")
            checked = _wrap_buffers(_validate_utf8(strings, position, numbers, read_options.errors))
            yield read_options.size_limit.apply(checked, lambda i: f"{position} {numbers[i]}")  # noqa: B023  called at once


def _handle_missing(
    strings: "pa.Array", row_numbers: IntArray, is_given: "pa.Array", read_options: ReadOptions, error: str
) -> tuple["pa.Array", IntArray]:
    """Apply the treatment of missing texts; return the remaining strings and their row numbers."""
    is_given_array = is_given.to_numpy(zero_copy_only=False)
    if read_options.missing_treatment == "error":
        raise ValueError(error.format(row_numbers[np.argmin(is_given_array)]))
    read_options.count_missing(is_given.false_count)
    if read_options.missing_treatment == "skip":
        return strings.filter(is_given), row_numbers[is_given_array]
    return strings if read_options.text_field else strings.fill_null(""), row_numbers


def _cast_to_strings(column: "pa.Array") -> "pa.Array":
    return column.cast(import_arrow().large_string(), safe=False)


def _get_batch_rows(file: "ParquetFile", group: int, field: str) -> int:
    """Return the batch size for a row group from its average row size."""
    metadata = file.metadata.row_group(group)
    paths = [metadata.column(i).path_in_schema for i in range(metadata.num_columns)]
    if field not in paths or not metadata.num_rows:
        return _ROWS
    # The footer contains the size of all rows, so no page is read.
    row_bytes = int(metadata.column(paths.index(field)).total_uncompressed_size) // int(metadata.num_rows)
    return max(1, min(_ROWS, _BATCH_BYTES // max(1, row_bytes)))


def _wrap_buffers(strings: "pa.Array") -> Documents:
    """Wrap the buffers of Arrow's large strings without a copy."""
    # Arrow has the same layout: concatenated bytes and int64 offsets. A batch may be a slice, so its first offset may
    # not be 0.
    _, offsets, data = strings.buffers()
    if not len(strings):
        return Documents.from_strings([])
    bounds = np.frombuffer(offsets, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    text = np.frombuffer(data or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
    return Documents(text, bounds - bounds[0])


def _validate_utf8(strings: "pa.Array", position: str, rows: IntArray, errors: str) -> "pa.Array":
    """Return valid UTF-8 strings: raise ValueError for invalid bytes, or replace them with U+FFFD."""
    arrow = import_arrow()
    try:
        strings.validate(full=True)
    except arrow.ArrowInvalid:
        texts = strings.cast(arrow.large_binary()).to_pylist()
        if errors == "replace":
            return arrow.array([text.decode(errors="replace") for text in texts], arrow.large_string())
        wrong = next(i for i, text in enumerate(texts) if text.decode(errors="ignore").encode() != text)
        raise ValueError(f"{position} {rows[wrong]}: invalid UTF-8; use errors='replace'") from None
    return strings


@contextmanager
def open_parquet(url: str, options: dict[str, Any]) -> Iterator["ParquetFile"]:
    """Open a Parquet file; errors name it."""
    arrow = import_arrow()
    with open_raw(url, options) as file:
        try:
            yield arrow.parquet.ParquetFile(file, buffer_size=_BUFFER)
        # pyarrow raises OSError without errno for damaged data; the file system sets errno.
        except (arrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise
            raise ValueError(f"{url} is damaged or not a Parquet file ({error}): write it again") from error


def _holds_strings(kind: "pa.DataType") -> bool:
    arrow = import_arrow()
    values = kind.value_type if arrow.types.is_dictionary(kind) else kind
    return values in (arrow.string(), arrow.large_string(), arrow.string_view(), arrow.null())


def import_arrow() -> Any:
    """Import pyarrow with its module for Parquet files."""
    return import_extra("pyarrow.parquet", "Parquet files need")
