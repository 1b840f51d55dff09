"""Text to tokens, terms, counts and ids: kernels on the bytes of one block."""

from dspectral.text.hashing import hash_documents
from dspectral.text.term_bytes import gather
from dspectral.text.term_index import TermIndex, encode_documents
from dspectral.text.term_sample import KeptTerms, TermSample
from dspectral.text.terms import TermTable
from dspectral.text.tokens import Tokens, tokenize
from dspectral.text.weighting import Weighting, inverse_document_frequency
from dspectral.text.words import count_words, cut_words, number_words
from dspectral.types import Documents

__all__ = [
    "Documents",
    "KeptTerms",
    "TermIndex",
    "TermSample",
    "TermTable",
    "Tokens",
    "Weighting",
    "count_words",
    "cut_words",
    "encode_documents",
    "gather",
    "hash_documents",
    "inverse_document_frequency",
    "number_words",
    "tokenize",
]
