"""The account of documents that were too long: what a store records of them, and the warning."""

import warnings
from hashlib import sha256

from dspectral.store.draft import Draft
from dspectral.store.from_text.longest import SHOWN, LongDocuments, Longest
from dspectral.store.from_text.sources import Span


def note(draft: Draft, piece: object, found: LongDocuments) -> None:
    """Write into the scratch of a store which documents of a piece of text were too long."""
    if found.count:
        # A file that was only touched has another stamp and the same documents.
        same = piece._replace(stamps=()) if isinstance(piece, Span) else piece
        name = sha256(repr(same).encode()).hexdigest()[:32]
        mark = {"count": found.count, "places": found.places}
        draft.where.mark(f"{draft.scratch}/long/{name}", mark)


def with_long_documents(draft: Draft, longest: Longest) -> Draft:
    """Return the draft with the number of documents that were too long in its provenance, and warn of them."""
    if longest.treatment == "error":
        return draft
    path = f"{draft.scratch}/long"
    marks = [draft.where.attributes(f"{path}/{name}") or {} for name in draft.where.names(path)]
    count = sum(mark.get("count", 0) for mark in marks)
    if not count:
        return draft
    places = sorted(place for mark in marks for place in mark.get("places", ()))[:SHOWN]
    warn_of(longest, count, places, stacklevel=4)
    # What an append skipped belongs to that append, and not to the store as it was.
    of_call = {"n_long_documents": count, "long_documents_at": places}
    if draft.generation:
        *earlier, made = draft.provenance["appended"]
        return draft._replace(provenance={**draft.provenance, "appended": [*earlier, {**made, **of_call}]})
    return draft._replace(provenance={**draft.provenance, **of_call})


def warn_of(longest: Longest, count: int, places: list[str], *, stacklevel: int) -> None:
    """Warn of documents that were skipped or truncated."""
    done = "read as empty" if longest.treatment == "skip" else "truncated"
    at = "; ".join(places) + ("; ..." if count > len(places) else "")
    warnings.warn(
        f"{count} document(s) of more than {longest.n_bytes:,} bytes were {done}: {at}", stacklevel=stacklevel
    )
