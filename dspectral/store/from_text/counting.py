"""Pass one of an exact vocabulary: count the n-grams of text that need not fit in memory."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dspectral.engine import count_as_pass, expect_passes, run_tasks
from dspectral.store.arrays import read_array, write_array
from dspectral.store.draft import StoreWriter, thread_pool_options
from dspectral.store.from_text.planned_text import Read, trim_malloc
from dspectral.store.from_text.sources import get_total_bytes
from dspectral.store.location import Location
from dspectral.store.vocabulary import (
    Vocabulary,
    VocabularySettings,
    find_vocabulary,
    pack_terms,
    unpack_terms,
    write_vocabulary,
)
from dspectral.text.terms import TermTable
from dspectral.types import Documents


def count_vocabulary(
    writer: StoreWriter, ranges: Sequence[Any], read: Read, settings: VocabularySettings
) -> Vocabulary:
    """Find the n-grams that become columns: those of each block go to scratch, merged by parts of a hash."""
    # Only a draft that goes on can have a vocabulary already: looking costs a request.
    if writer.resumed and (there := find_vocabulary(writer.where)) is not None:
        return there
    names_of_rule = "ngram_range", "lowercase", "tokenizer", "normalize"
    table_of = partial(TermTable.from_block, **{name: getattr(settings, name) for name in names_of_rule})
    names, n_documents = count_terms(writer, ranges, read, table_of, settings.n_partitions)
    limits = settings.limits(n_documents)
    merge = partial(_merge_and_filter, where=writer.where, names=names, limits=limits)
    tables = run_tasks(merge, list(range(settings.n_partitions)), name="merge-terms")
    vocabulary = Vocabulary.from_tables(tables, max_features=settings.max_features)
    if not vocabulary.documents.n_documents:
        raise ValueError(
            f"no n-gram of {n_documents} document(s) is in {limits[0]:g} to {limits[1]:g} of them, as "
            f"min_document_frequency = {settings.min_document_frequency} and "
            f"max_document_frequency = {settings.max_document_frequency} ask for"
        )
    write_vocabulary(writer.where, vocabulary)
    return vocabulary


def count_terms(
    writer: StoreWriter,
    ranges: Sequence[Any],
    read: Read,
    table_of: Callable[[Documents], TermTable],
    n_partitions: int,
    *,
    second_rule: bool = False,
) -> tuple[list[str], int]:
    """Write the terms of each block to scratch, cut by a hash, one task a span; ``second_rule`` by another rule."""
    scratch = f"{writer.scratch}/again" if second_rule else writer.scratch
    facts: dict[str, Any] = {"where": writer.where, "scratch": scratch, "n_partitions": n_partitions}
    count = partial(_count_span, read=read, table_of=table_of, **facts)
    expect_passes(2)  # this one, and one that writes what was counted
    with count_as_pass(is_pass=True), thread_pool_options() as threads:
        counted = run_tasks(
            count, list(enumerate(ranges)), name="count-terms", n_bytes=get_total_bytes(ranges), **threads
        )
    # What comes back are numbers of documents; the tables stay in the store, where each part is merged by one task.
    names = [
        f"{scratch}/{number:06d}/{part}"
        for number, of_span in enumerate(counted)
        for part in range(len(of_span))
    ]
    n_documents = sum(sum(of_span) for of_span in counted)
    if not n_documents:
        raise ValueError(
            f"no document at all in {', '.join(sorted({file_range.url for file_range in ranges}))}"
        )
    return names, n_documents


def _count_span(
    item: tuple[int, Any],
    *,
    where: Location,
    scratch: str,
    read: Read,
    table_of: Callable[[Documents], TermTable],
    n_partitions: int,
) -> list[int]:
    """Write the n-grams of a span to scratch; return the documents of each of its blocks."""
    number, file_range = item
    # One mark for the span, not one for each block: text has no index, and a part of a span costs as much to read
    # again as all of it.
    path = f"{scratch}/{number:06d}"
    if there := where.attributes(path):
        return list(there["n_documents"])
    store = where.open(read_only=False)
    n_documents: list[int] = []
    for part, documents in enumerate(read(file_range)):
        trim_malloc()
        # A part has the same number in all blocks, because the hash of a term decides it: terms of different parts
        # never meet, and each part can be merged by itself.
        for partition, terms in enumerate(table_of(documents).partition(n_partitions)):
            write_array(store, f"{path}/{part}/{partition}", pack_terms(terms))
        n_documents.append(documents.n_documents)
    where.mark(path, {"n_documents": n_documents})
    return n_documents


def _merge_and_filter(
    part: int, *, where: Location, names: list[str], limits: tuple[float, float]
) -> TermTable:
    """Merge a part of all blocks and keep what is within the limits."""
    merged, (least, most) = merge_partition(part, where=where, names=names), limits
    return merged.filter((merged.document_frequency >= least) & (merged.document_frequency <= most))


def merge_partition(part: int, *, where: Location, names: list[str]) -> TermTable:
    """Merge a part of all n blocks in a balanced tree, so that at most log2(n) tables are in memory."""
    store = where.open()
    # As a binary counter: `waiting` holds tables of 2**level blocks, their levels falling, each level once at most.
    waiting: list[tuple[int, TermTable]] = []
    for name in names:
        level, table = 0, unpack_terms(read_array(where, store, name, str(part)))
        while waiting and waiting[-1][0] == level:
            level, table = level + 1, waiting.pop()[1].merge(table)
        waiting.append((level, table))
    # The levels that are left, smallest first, in the order of the blocks.
    *earlier, merged = (table for _, table in waiting)
    for table in reversed(earlier):
        merged = table.merge(merged)
    return merged
