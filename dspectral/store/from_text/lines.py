"""Lines that become documents without a loop over lines."""

import numpy as np

from dspectral.store.from_text.pieces import Piece
from dspectral.types import Documents


def check_utf8(piece: Piece, errors: str) -> Piece:
    """Return the piece if it is UTF-8, or mended with U+FFFD where ``errors`` is "replace"."""
    if piece.data.isascii():  # cheaper than decoding, and true of most text
        return piece
    try:
        piece.data.decode()
    except UnicodeDecodeError as error:
        if errors == "replace":
            return piece._replace(data=piece.data.decode(errors="replace").encode())
        other = "utf-16" if not piece.byte and piece.data[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
        what = (
            f"not UTF-8 ({error.reason}); errors='replace' reads on, and encoding= names another encoding, such as "
            f"{other!r}"
        )
        raise piece.error(error.start, what) from error
    return piece


def split_lines(data: bytes) -> Documents:
    r"""Make each line a document, without its line end (LF or CR LF); the last one may lack it.

    >>> lines = split_lines(b"the cat\r\n\nsat")
    >>> [lines.text(i) for i in range(lines.n_documents)]
    [b'the cat', b'', b'sat']
    """
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    # A document begins where its line does, less one byte for each line end that was taken out before it.
    text = data.replace(b"\n", b"")
    last = [] if data.endswith(b"\n") or not data else [len(text)]
    offsets = np.concatenate([[0], ends - np.arange(len(ends)), last]).astype(np.int64)
    return Documents(np.frombuffer(text, dtype=np.uint8), offsets)


def lines_of(documents: Documents) -> Documents:
    r"""Make each line of each document a document, as :func:`split_lines` does for a file.

    >>> lines = lines_of(Documents.of(["the cat\nsat\n", "", "a dog"]))
    >>> [lines.text(i) for i in range(lines.n_documents)]
    [b'the cat', b'sat', b'', b'a dog']
    """
    if not np.any(documents.data == ord("\n")):
        return documents
    texts = (documents.text(i).replace(b"\r\n", b"\n") for i in range(documents.n_documents))
    return Documents.of([line for text in texts for line in text.removesuffix(b"\n").split(b"\n")])
