"""The text in the records of CSV files as RFC 4180 has them: a quoted field may hold line ends."""

import csv
import io
from collections.abc import Iterable, Iterator

from dspectral.store.lines import PIECE_BYTES, Piece, checked
from dspectral.types import Documents

_RECORDS = 4096
_LONGEST_FIELD = 2**31 - 1


def csv_records(pieces: Iterable[Piece], url: str, errors: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record, its header too, and the line where it begins.

    Raises
    ------
    ValueError
        If the file is not UTF-8 or no CSV.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))  # 128 KiB until someone raises it
    records = csv.reader(_lines(pieces, errors), strict=True)
    while True:
        line = records.line_num + 1
        try:
            record = next(records, None)
        except csv.Error as error:
            raise ValueError(f"{url}, line {line}: no CSV record ({error})") from error
        if record is None:
            return
        yield line, record


def csv_texts(pieces: Iterable[Piece], url: str, column: int, errors: str) -> Iterator[Documents]:
    """Yield a column of a CSV file, some records at a time.

    Raises
    ------
    ValueError
        If the file is not UTF-8 or no CSV, or a record has another number of columns than the header.
    """
    n_columns, texts, n_bytes = 0, [], 0
    for line, record in csv_records(pieces, url, errors):
        if not n_columns:
            n_columns = len(record)
            continue
        if len(record) != n_columns:
            raise ValueError(f"{url}, line {line}: {len(record)} column(s), but the header has {n_columns}")
        texts.append(record[column].encode())
        n_bytes += len(texts[-1])
        if n_bytes >= PIECE_BYTES or len(texts) == _RECORDS:
            yield Documents.of(texts)
            texts, n_bytes = [], 0
    yield Documents.of(texts)


def _lines(pieces: Iterable[Piece], errors: str) -> Iterator[str]:
    for piece in pieces:
        yield from io.StringIO(checked(piece, errors).data.decode(), newline="\n")
