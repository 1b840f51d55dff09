"""The longest document that is read, and what becomes of longer ones: memory is bounded however odd a text is."""

import codecs
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dspectral.store.checks import check_name, check_size
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
        """Return what a store records of it: nothing where it is the default, as older stores have it."""
        if self == Longest():
            return {}
        return {"max_document_bytes": self.n_bytes, "long_documents": self.treatment}

    def error(self, place: str, what: str = "a document", size: int | None = None) -> ValueError:
        """Return the error of a document that is too long."""
        most = f"{self.n_bytes:,} bytes"
        has = f"more than {most}, which" if size is None else f"{size:,} bytes, but {most}"
        return ValueError(f"{place}: {what} of {has} is the longest that is read; {self.remedy}")

    def cut(self, text: bytes, encoding: str | None = None) -> bytes:
        """Return the beginning of a text, of whole characters."""
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
        sizes = np.diff(documents.offsets)
        long = np.flatnonzero(sizes > self.n_bytes).tolist()
        if not long:
            return documents
        if self.treatment == "error":
            raise self.error(place(long[0]), "a text", size=int(sizes[long[0]]))
        texts = [documents.text(i) for i in range(documents.n_documents)]
        for i in long:
            texts[i] = self.cut(texts[i]) if self.treatment == "truncate" else b""
            if found is not None:
                found.add(place(i))
        return Documents.of(texts)


LONGEST = Longest()
"""The limit unless a caller says otherwise."""
