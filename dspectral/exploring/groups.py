"""Groups of documents by a column, and the topics of each group."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import run_tasks
from dspectral.exploring.findings import TopicsBy
from dspectral.methods.topics.estimator import Topics
from dspectral.store.blocks import BlockInfo, read_block
from dspectral.store.counts import CountStore
from dspectral.store.from_text.lines import FileRange, ReadOptions
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.text_input import open_text
from dspectral.types import FloatArray, Int32s, Int64s

MAX_GROUPS, MAX_PERIODS = 24, 60
"""Maximum number of groups, and of days or months before longer periods are used."""
DATE = re.compile(r"(\d{4})(?:[-/](\d\d))?(?:[-/](\d\d))?(?=$|[T ])")
"""A date, with what may follow it."""


class DocumentGroups(NamedTuple):
    """Groups of documents: the column, names, whether they are periods, and the group of each document or -1."""

    column: str
    names: list[str]
    is_time: bool
    codes: Int32s


def read_groups(by: str | Sequence[str], sources: list[str], read_options: ReadOptions, n_texts: int) -> DocumentGroups:
    """Return the groups of documents, by a column of the sources, or by one value for each text."""
    if isinstance(by, str):
        if n_texts or read_options.field is None:
            raise ValueError(f"by={by!r} must be None without field=; for texts in memory pass one value for each text")
        # Read like ids: missing texts that are skipped have no group.
        options = read_options._replace(field=by, text_field=read_options.field, unit=None)
        ranges = open_text(sources, options, is_ids=True).ranges
        parts = run_tasks(lambda file_range: _read_values(file_range, options), ranges, name="read-groups")
    else:
        parts = [np.unique(np.array([str(value) for value in by], dtype=object), return_inverse=True)]
        if len(parts[0][1]) != n_texts:
            raise ValueError(f"by has {len(parts[0][1])} values, but must have {n_texts}, one for each text")
    values, first = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    starts = np.cumsum([0, *(len(part[0]) for part in parts)])
    codes = np.concatenate([first[start + part[1]] for start, part in zip(starts[:-1], parts, strict=True)])
    names, is_time, group_of_value = group_values(values.tolist(), np.bincount(codes), by)
    return DocumentGroups(by if isinstance(by, str) else "group", names, is_time, group_of_value[codes])


def _read_values(file_range: FileRange, read_options: ReadOptions) -> tuple[NDArray[np.object_], Int64s]:
    """Return the distinct values of a column, and the index of the value of each record."""
    values = [
        block.text(i).decode(errors="replace")
        for block in read_file_range(file_range, read_options)
        for i in range(block.n_documents)
    ]
    return np.unique(np.array(values, dtype=object), return_inverse=True)


def group_values(values: list[str], counts: Int64s, by: object) -> tuple[list[str], bool, Int32s]:
    """Return the names of groups, whether they are periods, and the group of each value; -1 for an empty one.

    >>> group_values(["2026-01-31", "2026-03-02"], np.array([1, 1]), "date")[0][::30]
    ['2026-01-31', '2026-03-02']
    >>> group_values(["", "no", "yes"], np.array([1, 2, 9]), "paid")
    (['yes', 'no'], False, array([-1,  1,  0], dtype=int32))
    """
    filled = [value.strip() for value in values if value.strip()]
    groups = np.full(len(values), -1, np.int32)
    positions = [i for i, value in enumerate(values) if value.strip()]
    matches = [DATE.match(value) for value in filled]
    if filled and all(matches):
        with suppress(ValueError):  # such as month 13
            dates = ["-".join(filter(None, match.groups())) for match in matches if match]
            finest = min(map(len, dates))
            for n_letters, unit in ((10, "D"), (7, "M"), (4, "Y")):
                if n_letters > finest:
                    continue
                periods = np.array([date[:n_letters] for date in dates], dtype=f"datetime64[{unit}]")
                steps = (periods - periods.min()).astype(np.int64)
                if steps.max() < MAX_PERIODS or unit == "Y":
                    groups[positions] = steps
                    names = np.arange(periods.min(), periods.max() + 1).astype(str).tolist()
                    return names, True, groups
    if len(filled) > MAX_GROUPS:
        raise ValueError(
            f"by={by!r:.60} has {len(filled)} different values, such as {filled[0]!r:.60}, but must have at most "
            f"{MAX_GROUPS}, or dates such as 2026-11-27"
        )
    order = np.argsort(-counts[positions], kind="stable")
    groups[np.array(positions, np.int64)[order]] = np.arange(len(order))
    return [filled[i] for i in order.tolist()], False, groups


def compute_topics_by(store: CountStore, topics: Topics, groups: DocumentGroups) -> TopicsBy:
    """Return the mean shares of topics in each group, in one pass over the counts."""
    if len(groups.codes) != store.n_rows:
        raise ValueError(
            f"by={groups.column!r} has {len(groups.codes)} values, but must have {store.n_rows}, one per document"
        )
    items = list(zip(store.blocks, np.split(groups.codes, np.cumsum(store.block_rows)[:-1]), strict=True))
    n_groups, location = len(groups.names), store.location

    def sum_block(item: tuple[BlockInfo, Int32s]) -> tuple[FloatArray, Int64s]:
        """Return the sums of shares (n_groups, n_topics) and the numbers of documents with a topic (n_groups,)."""
        block, codes = item
        shares = topics.transform(read_block(location, block))
        rows = np.flatnonzero((codes >= 0) & shares.any(axis=1))
        members = sparse.csr_array((np.ones(len(rows)), (codes[rows], rows)), shape=(n_groups, block.n_rows))
        return members @ shares, np.bincount(codes[rows], minlength=n_groups)

    sums, counts = (np.sum(parts, axis=0) for parts in zip(*run_tasks(sum_block, items, name="topics-by"), strict=True))
    shares = sums / np.maximum(counts, 1)[:, None]
    return TopicsBy(groups.column, groups.names, groups.is_time, counts, shares)
