"""Names for hashed columns: a sample of terms that is kept while text is hashed.

Each block leaves its most frequent terms in scratch before it is marked as finished, so that a build that goes on
finds them; they are merged in the order of the blocks, whoever wrote them.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dspectral.store.arrays import Location, StoreError, write_array
from dspectral.store.blocks import BlockInfo
from dspectral.store.checks import check_size
from dspectral.store.counts import open_finished
from dspectral.store.draft import Draft
from dspectral.store.term_names import KEY, read_sample, write_sample
from dspectral.store.totals import totals_path
from dspectral.text.hashing import HashingSettings
from dspectral.text.term_sample import KeptTerms, TermSample, merged_samples
from dspectral.types import Documents

B = TypeVar("B")


def terms_to_keep(
    keep_terms: int | None, store: str, storage_options: dict[str, Any] | None, *, hashed: bool, append: bool
) -> int | None:
    """Return how many terms a build keeps; one that appends keeps as many as the store does."""
    if keep_terms is not None:
        keep_terms = check_size(KEY, keep_terms)
        if not hashed:
            raise ValueError(
                f"keep_terms is {keep_terms}, but a vocabulary knows the terms of all columns: leave it out"
            )
    finished = open_finished(Location.of(store, storage_options)) if append and hashed else None
    if finished is None:
        return keep_terms
    kept = finished.provenance.get(KEY)
    if keep_terms not in (None, kept):
        raise StoreError(
            f"keep_terms to append with is {keep_terms}, but store {store} was built with {kept}"
        )
    return kept


def write_with_terms(
    name: str,
    documents: Documents,
    *,
    last: bool,
    text: int,
    write: Callable[..., B],
    draft: Draft,
    settings: HashingSettings,
    size: int,
) -> B:
    """Write the terms of a block to scratch, then the block."""
    # In this order: a block that is marked has its terms, and one that is not is written again with them.
    write_sample(draft.where, _scratch(draft, name), TermSample.of(documents, settings, size))
    return write(name, documents, last=last, text=text)


def write_kept_terms(draft: Draft, blocks: Sequence[BlockInfo], settings: HashingSettings, size: int) -> None:
    """Merge the terms of all blocks and write them beside the column sums."""
    where = draft.where
    earlier = [totals_path(draft.generation - 1)] if draft.earlier else []
    # The terms of earlier rows come first, as their rows do: what is dropped depends on the order of merging.
    paths = [*earlier, *(_scratch(draft, block.name) for block in blocks if block.n_rows)]
    merged = merged_samples(read_sample(where, path, size) for path in paths)
    kept, path = KeptTerms.of(merged, settings), totals_path(draft.generation)
    # Of a new generation: until the root names it, whoever has the store open reads the terms of the last one.
    store = where.open(read_only=False)
    write_array(store, f"{path}/term_columns", kept.columns)
    write_array(store, f"{path}/term_signs", kept.signs)
    write_sample(where, path, merged)


def _scratch(draft: Draft, name: str) -> str:
    return f"{draft.scratch}/kept-terms/{name}"
