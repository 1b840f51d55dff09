"""Pass one of an exact vocabulary: count the n-grams of text that need not fit in memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

from dspectral.graph import run_tasks
from dspectral.kernels.terms import TermTable
from dspectral.store.blocks import Location, read_array, write_array
from dspectral.store.draft import Draft
from dspectral.store.sources import Span
from dspectral.store.vocabulary import Vocabulary, VocabularySettings, pack, unpack, write_vocabulary


def count_vocabulary(
    draft: Draft, spans: list[Span], read: Callable[[Span], Any], settings: VocabularySettings
) -> Vocabulary:
    """Find the n-grams that become columns, and write them into the store.

    Parameters
    ----------
    draft : Draft
    spans : list of Span
    read : callable
        From a span to its blocks of documents.
    settings : VocabularySettings

    Returns
    -------
    Vocabulary

    Raises
    ------
    ValueError
        If there is no document, or no n-gram within the document frequencies.

    Notes
    -----
    The n-grams of each block go to scratch in the store, cut by a hash; then one task merges one part of all
    blocks and keeps what is frequent enough. A task holds the n-grams of a block, or of a part.
    """
    scratch = f"scratch/{draft.generation:04d}"
    count = partial(_count_span, where=draft.where, scratch=scratch, read=read, settings=settings)
    counted = run_tasks(count, list(enumerate(spans)), name="count-terms")
    names = [name for of_span in counted for name, _ in of_span]
    n_documents = sum(n for of_span in counted for _, n in of_span)
    if not n_documents:
        raise ValueError(f"no document at all in {', '.join(span.url for span in spans)}")
    merge = partial(_merge_part, where=draft.where, names=names, limits=settings.limits(n_documents))
    tables = run_tasks(merge, list(range(settings.n_partitions)), name="merge-terms")
    vocabulary = Vocabulary.of(tables, max_features=settings.max_features)
    if not vocabulary.documents.n_documents:
        raise ValueError(f"no n-gram of {n_documents} document(s) is within the document frequencies of {settings}")
    write_vocabulary(draft.where, vocabulary)
    return vocabulary


def _count_span(
    item: tuple[int, Span],
    *,
    where: Location,
    scratch: str,
    read: Callable[[Span], Any],
    settings: VocabularySettings,
) -> list[tuple[str, int]]:
    number, span = item
    store, written = where.open(read_only=False), []
    for part, documents in enumerate(read(span)):
        name = f"{scratch}/{number:06d}-{part:06d}"
        table = TermTable.of(documents, settings.ngram_range, settings.lowercase)
        for partition, terms in enumerate(table.partition(settings.n_partitions)):
            write_array(store, f"{name}/{partition}", pack(terms))
        written.append((name, documents.n_documents))
    return written


def _merge_part(
    part: int, *, where: Location, names: list[str], limits: tuple[float, float]
) -> TermTable:
    store = where.open()
    merged = unpack(read_array(where, store, names[0], str(part)))
    for name in names[1:]:  # one at a time: the n-grams of a part repeat from block to block
        merged = merged.merge(unpack(read_array(where, store, name, str(part))))
    least, most = limits
    return merged.filter((merged.document_frequency >= least) & (merged.document_frequency <= most))
