"""Tables of text with a header, as workflows are given them."""

from collections.abc import Collection

import fsspec


def read_tsv(path: str, columns: Collection[str]) -> list[dict[str, str]]:
    r"""Read the rows of a TSV whose header has at least these columns; also .gz and the like, URLs.

    >>> with fsspec.open("memory://drinks.tsv", "w") as file:
    ...     _ = file.write("text\tlabel\nhot tea\tdrink\n")
    >>> read_tsv("memory://drinks.tsv", {"text", "label"})
    [{'text': 'hot tea', 'label': 'drink'}]
    """
    rows = []
    with fsspec.open(path, "rt", encoding="utf-8", compression="infer", newline="\n") as file:
        header = next(iter(file), "").rstrip("\r\n").split("\t")
        missing = set(columns) - set(header)
        if missing:
            raise ValueError(f"{path} has no column {' and '.join(sorted(missing))}, but {', '.join(header)}")
        for number, line in enumerate(file, start=2):
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) != len(header):
                raise ValueError(
                    f"{path}, line {number} has {len(fields)} columns, but the header {len(header)}"
                )
            rows.append(dict(zip(header, fields, strict=True)))
    return rows
