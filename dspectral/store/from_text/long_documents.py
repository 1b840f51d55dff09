"""The longest document that is read, and what becomes of longer ones: memory is bounded however odd a text is."""

import codecs
import warnings
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from dspectral.store.checks import check_name, check_size
from dspectral.store.draft import Draft
from dspectral.types import Documents

MOST_BYTES = 16 << 20
"""Bytes of the longest document, unless a caller says otherwise."""
RECORD_BYTES = 4 << 20
"""A record, with its quotes, escapes and other fields, may have as many bytes, or twice those of its text if more."""
TREATMENTS = ("error", "skip", "truncate")
SHOWN = 3


class LongDocuments:
    """The documents that were too long in a piece of text: how many, and where the first of them are.

    `count`: number of documents that were skipped or truncated; `places`: file and line (or byte, or row) of
    the first ones.
    """

    def __init__(self) -> None:
        self.count = 0
        self.places: list[str] = []

    def add(self, place: str) -> None:
        """Count a document."""
        self.count += 1
        if len(self.places) < SHOWN:
            self.places.append(place)


class Longest(NamedTuple):
    """How long a document may be.

    `n_bytes`: most bytes of a document; `treatment`: treatment of a longer one; `remedy`: end of the sentence
    of the error.
    """

    n_bytes: int = MOST_BYTES
    treatment: str = "error"
    remedy: str = "max_document_bytes allows more, and long_documents='skip' or 'truncate' reads on"

    @classmethod
    def checked(cls, max_document_bytes: int, long_documents: str) -> "Longest":
        """Return the limit that two parameters ask for."""
        check_name("long_documents", long_documents, TREATMENTS)
        return cls(check_size("max_document_bytes", max_document_bytes), long_documents)

    @property
    def of_records(self) -> "Longest":
        """The limit of whole records: more than that of a text, and a record that is cut cannot be read."""
        n_bytes = max(2 * self.n_bytes, RECORD_BYTES)
        if self.treatment != "truncate":
            return self._replace(n_bytes=n_bytes)
        remedy = "max_document_bytes allows more, and long_documents='skip' reads on"
        return Longest(n_bytes, "error", remedy)

    def record(self) -> dict[str, Any]:
        """Return what a store records of it: nothing where it is the default."""
        if self == Longest():
            return {}
        return {"max_document_bytes": self.n_bytes, "long_documents": self.treatment}

    def error(self, place: str, what: str) -> ValueError:
        """Return the error of a document that is too long."""
        return ValueError(f"{place}: {what} of more than {self.n_bytes:,} bytes is not read; {self.remedy}")

    def treated(
        self,
        text: bytes,
        place: str,
        what: str,
        found: LongDocuments | None,
        encoding: str | None = None,
        empty: bytes = b"",
    ) -> bytes:
        """Return what becomes of a text that is too long: its beginning, of whole characters, or ``empty``."""
        if self.treatment == "error":
            raise self.error(place, what)
        if found is not None:
            found.add(place)
        if self.treatment == "skip":
            return empty
        head = text[: self.n_bytes]
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace")
        decoder.decode(head)
        return head[: len(head) - len(decoder.getstate()[0])]  # what it waits with is a part of a character

    def apply(
        self, documents: Documents, place: Callable[[int], str], found: LongDocuments | None
    ) -> Documents:
        """Return documents of which none is too long.

        >>> short = Longest(4, "truncate").apply(Documents.of(["to be", "or"]), str, None)
        >>> [short.text(i) for i in range(2)]
        [b'to b', b'or']
        """
        long = np.flatnonzero(np.diff(documents.offsets) > self.n_bytes).tolist()
        if not long:
            return documents
        texts = [documents.text(i) for i in range(documents.n_documents)]
        for i in long:
            texts[i] = self.treated(texts[i], place(i), "a text", found)
        return Documents.of(texts)


LONGEST = Longest()
"""The limit unless a caller says otherwise."""


def note(draft: Draft, piece: object, found: LongDocuments) -> None:
    """Write into the scratch of a store which documents of a piece of text were too long."""
    if found.count:
        name = sha256(repr(piece).encode()).hexdigest()[:32]
        mark = {"count": found.count, "places": found.places}
        draft.where.mark(f"{draft.scratch}/long/{name}", mark)


def with_long_documents(draft: Draft, longest: Longest) -> Draft:
    """Return the draft with the number of documents that were too long in its provenance, and warn of them."""
    if longest.treatment == "error":
        return draft
    path = f"{draft.scratch}/long"
    marks = [draft.where.attributes(f"{path}/{name}") for name in draft.where.names(path)]
    count = sum(mark["count"] for mark in marks if mark)
    if not count:
        return draft
    places = sorted(place for mark in marks if mark for place in mark["places"])[:SHOWN]
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
