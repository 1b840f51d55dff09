"""Notebook cards of stores, corpora, text files and vocabularies, from facts already in memory."""

from typing import Any

from dspectral.html import card, format_bytes, names, number, share
from dspectral.store.location import without_secrets
from dspectral.text.tokenizers import tokenizer_from_record
from dspectral.types import Documents, IntArray

ENTRY_BYTES = 8


def render_count_store(store: Any) -> str:
    """Return the HTML card of a count store."""
    appended = len(store.provenance.get("appended", []))
    labels = None if not store.blocks or store.n_labels is None else f"{store.n_labels:,} columns"
    facts = [
        ("path", without_secrets(store.location.url)),
        *_describe_matrix(store.shape, store.nnz),
        ("in memory", f"{format_bytes(store.n_bytes)} in {number(store.n_blocks)} block(s)"),
        ("columns are", _describe_columns(store.provenance)),
        ("labels", labels),
        ("weighting", store.provenance.get("weighting")),
        ("made from", _describe_sources(store.provenance)),
        ("appended", f"{appended} time(s)" if appended else None),
        ("left out", ", ".join(store.left_out) or None),
    ]
    return card("CountStore", facts)


def render_anndata(url: str, shape: tuple[int, int], nnz: int, n_blocks: int) -> str:
    """Return the HTML card of a matrix of an AnnData file."""
    facts = [
        ("path", without_secrets(url)),
        *_describe_matrix(shape, nnz),
        ("in memory", f"{format_bytes(ENTRY_BYTES * nnz)} in {number(n_blocks)} block(s)"),
    ]
    return card("AnnDataCounts", facts)


def render_corpus(corpus: Any) -> str:
    """Return the HTML card of a corpus; it shows words only if they were read before."""
    words = vars(corpus).get("words")
    facts = [
        ("path", without_secrets(corpus.location.url)),
        ("sentences", corpus.n_sentences),
        ("tokens", f"{corpus.n_tokens:,} in {number(corpus.n_blocks)} block(s)"),
        ("word types", None if words is None else names(words)),
        ("lowercase", corpus.provenance.get("lowercase")),
        ("made from", _describe_sources(corpus.provenance)),
    ]
    return card("Corpus", facts)


def render_text_files(files: Any) -> str:
    """Return the HTML card of text files; it shows the number of documents only if they were counted before."""
    blocks, read_options = vars(files).get("blocks"), files.read_options
    documents = "not counted yet"
    if blocks is not None:
        documents = f"{sum(block.n_documents for block in blocks):,} in {len(blocks):,} block(s)"
    facts = [
        ("files", names(without_secrets(files.sources))),
        ("documents", documents),
        (
            "a document is",
            read_options.unit or (f"a field {read_options.field!r}" if read_options.field else "a line or a field"),
        ),
        ("block", f"at most {format_bytes(read_options.block_bytes)} of text"),
        (
            "longest document",
            f"{format_bytes(read_options.size_limit.n_bytes)}, beyond it {read_options.size_limit.treatment}",
        ),
        ("not UTF-8", {"strict": "an error", "replace": "replaced"}[read_options.errors]),
    ]
    return card("TextFiles", facts)


def render_vocabulary(documents: Documents, counts: IntArray) -> str:
    """Return the HTML card of a vocabulary with its first terms."""
    terms = [documents.text(i).decode() for i in range(min(12, documents.n_documents))]
    facts = [
        ("terms", documents.n_documents),
        ("in most documents", ", ".join(terms)),
        ("occurrences", number(float(counts.sum()))),
        ("in memory", format_bytes(documents.data.nbytes + documents.offsets.nbytes + 2 * counts.nbytes)),
    ]
    return card("Vocabulary", facts)


def _describe_matrix(shape: tuple[int, int], nnz: int) -> list[tuple[str, object]]:
    n_rows, n_columns = shape
    return [
        ("rows x columns", f"{n_rows:,} x {n_columns:,}"),
        ("entries", f"{nnz:,}, {share(nnz, n_rows * n_columns)} of all"),
    ]


def _describe_columns(provenance: dict[str, Any]) -> str | None:
    for key, kind_label in (("hashing", "hashed"), ("vocabulary", "of an exact vocabulary")):
        settings = provenance.get(key)
        if settings:
            low, high = settings.get("ngram_range", (1, 1))
            length = f"{low}" if low == high else f"{low} to {high}"
            n_kept_terms = provenance.get("keep_terms") if key == "hashing" else None
            tokenizer = tokenizer_from_record(settings.get("tokenizer"))
            tokens = f"token(s) of {tokenizer}" if tokenizer else "word(s)"
            return f"n-grams of {length} {tokens}, {kind_label}" + (
                f", up to {n_kept_terms:,} with names" if n_kept_terms else ""
            )
    return None


def _describe_sources(provenance: dict[str, Any]) -> str | None:
    """Return the names of the source files."""
    sources = provenance.get("sources")
    if not isinstance(sources, list):  # recorded by the user
        return None
    records = [source if isinstance(source, dict) else {"url": source} for source in sources]
    urls = [str(url) for record in records for url in (record.get("url"), *record.get("also", ())) if url]
    return names(without_secrets(list(dict.fromkeys(urls))), max_shown=3) if urls else None
