"""Groups of documents by a column, and the topics of each group."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import add_fields, get_row_numbers, run_tasks, summarize
from dspectral.exploring.findings import TopicsBy
from dspectral.inputs.groups import group_values
from dspectral.methods.topics.estimator import Topics
from dspectral.store.from_text.lines import FileRange, ReadOptions
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.text_input import open_text
from dspectral.types import FloatArray, Int32s, Int64s


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


class GroupSums(NamedTuple):
    """Sums of the shares of topics (n_groups, n_topics), and numbers of documents with a topic (n_groups,)."""

    shares: FloatArray
    counts: Int64s

    @classmethod
    def from_block(cls, shares: FloatArray, numbers: Int64s, *, codes: Int32s, n_groups: int) -> Self:
        """Summarize one block of shares and row numbers; `codes`: group of each document or -1."""
        own = codes[numbers[:, 0]]
        rows = np.flatnonzero((own >= 0) & shares.any(axis=1))
        members = sparse.csr_array((np.ones(len(rows)), (own[rows], rows)), shape=(n_groups, len(own)))
        return cls(members @ shares, np.bincount(own[rows], minlength=n_groups))

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        return add_fields(self, *others)


def compute_topics_by(documents: Any, topics: Topics, groups: DocumentGroups) -> TopicsBy:
    """Return the mean shares of topics in each group, in one pass over the counts or vectors."""
    shares = topics.transform(documents)
    if len(groups.codes) != len(shares):
        raise ValueError(
            f"by={groups.column!r} has {len(groups.codes)} values, but must have {len(shares)}, one per document"
        )
    sum_block = partial(GroupSums.from_block, codes=groups.codes, n_groups=len(groups.names))
    sums, counts = summarize(shares, get_row_numbers(shares), summarize_block=sum_block, name="topics-by")
    return TopicsBy(groups.column, groups.names, groups.is_time, counts, sums / np.maximum(counts, 1)[:, None])
