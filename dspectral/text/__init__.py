"""Text to tokens, terms, counts and ids: kernels on the bytes of one block."""

from dspectral.text.hashing import hash_documents
from dspectral.text.tokens import tokenize
from dspectral.text.weighting import inverse_document_frequency

__all__ = ["hash_documents", "inverse_document_frequency", "tokenize"]
