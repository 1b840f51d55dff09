"""Pass one of an exact vocabulary: count n-grams out of core, in hash partitions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dspectral.engine import count_as_pass, expect_passes, run_tasks
from dspectral.store.arrays import read_array, write_array
from dspectral.store.from_text.sources import get_total_bytes
from dspectral.store.from_text.text_input import Read, trim_malloc
from dspectral.store.location import Location
from dspectral.store.vocabulary import (
    Vocabulary,
    VocabularySettings,
    find_vocabulary,
    pack_terms,
    unpack_terms,
    write_vocabulary,
)
from dspectral.store.writer import StoreWriter
from dspectral.text.terms import TermTable
from dspectral.types import Documents


def count_vocabulary(
    writer: StoreWriter, ranges: Sequence[Any], read: Read, settings: VocabularySettings
) -> Vocabulary:
    """Count the n-grams of all blocks, select those within the limits, and write them as the vocabulary."""
    if writer.resumed and (existing := find_vocabulary(writer.location, writer.vocabulary)) is not None:
        return existing
    rule_fields = "ngram_range", "lowercase", "tokenizer", "normalize"
    make_table = partial(TermTable.from_block, **{name: getattr(settings, name) for name in rule_fields})
    names, n_documents = count_terms(writer, ranges, read, make_table, settings.n_partitions)
    limits = settings.limits(n_documents)
    location, (low, high) = writer.location, limits

    def merge(partition: int) -> TermTable:
        """Merge a partition of all blocks and drop terms outside the limits of document frequency."""
        merged = merge_partition(partition, location=location, names=names)
        return merged.filter((merged.document_frequency >= low) & (merged.document_frequency <= high))

    tables = run_tasks(merge, list(range(settings.n_partitions)), name="merge-terms")
    vocabulary = Vocabulary.from_tables(tables, max_features=settings.max_features)
    if not vocabulary.documents.n_documents:
        raise ValueError(
            f"no n-gram occurs in {limits[0]:g} to {limits[1]:g} of the {n_documents} document(s): lower min_df = "
            f"{settings.min_df} or raise max_df = {settings.max_df}"
        )
    write_vocabulary(writer.location, writer.vocabulary, vocabulary)
    return vocabulary


def count_terms(
    writer: StoreWriter,
    ranges: Sequence[Any],
    read: Read,
    make_table: Callable[[Documents], TermTable],
    n_partitions: int,
    *,
    second_rule: bool = False,
) -> tuple[list[str], int]:
    """Write the term counts of each block in hash partitions; return their paths and the number of documents."""
    scratch = f"{writer.scratch}/again" if second_rule else writer.scratch
    location = writer.location

    def count(item: tuple[int, Any]) -> list[int]:
        """Write the n-grams of a byte range; return the number of documents of each of its blocks."""
        number, file_range = item
        # One completion marker per byte range: text has no index, so single blocks cannot be read again.
        path = f"{scratch}/{number:06d}"
        if marker := location.read_attributes(path):
            return list(marker["n_documents"])
        n_documents: list[int] = []
        for block_number, documents in enumerate(read(file_range)):
            trim_malloc()
            # The hash of a term selects its partition, so each partition can be merged separately.
            for partition, terms in enumerate(make_table(documents).partition(n_partitions)):
                write_array(location, f"{path}/{block_number}/{partition}", pack_terms(terms))
            n_documents.append(documents.n_documents)
        location.write_attributes(path, {"n_documents": n_documents})
        return n_documents

    expect_passes(2)  # this one and the pass that writes rows
    with count_as_pass(is_pass=True):
        block_sizes = run_tasks(count, list(enumerate(ranges)), name="count-terms", n_bytes=get_total_bytes(ranges))
    # Tasks return only numbers of documents; the tables stay in the store and are merged by one task per partition.
    names = [
        f"{scratch}/{number:06d}/{part}" for number, n_blocks in enumerate(block_sizes) for part in range(len(n_blocks))
    ]
    n_documents = sum(sum(n_blocks) for n_blocks in block_sizes)
    if not n_documents:
        raise ValueError(f"no document in {', '.join(sorted({file_range.url for file_range in ranges}))}")
    return names, n_documents


def merge_partition(partition: int, *, location: Location, names: list[str]) -> TermTable:
    """Merge a partition of all n blocks in a balanced tree with at most log2(n) tables in memory."""
    # A binary counter: `pending` holds tables of 2**level blocks, with strictly falling levels.
    pending: list[tuple[int, TermTable]] = []
    for name in names:
        level, table = 0, unpack_terms(read_array(location, f"{name}/{partition}"))
        while pending and pending[-1][0] == level:
            level, table = level + 1, pending.pop()[1].merge(table)
        pending.append((level, table))
    *other_tables, merged = (table for _, table in pending)
    for table in reversed(other_tables):
        merged = table.merge(merged)
    return merged
