"""Build a corpus of token ids from text, in two passes."""

from collections.abc import Collection, Sequence
from functools import partial
from os import PathLike
from typing import Any, cast, get_args
from uuid import uuid4

import numpy as np

from dspectral.engine import run_tasks, tracked_fit
from dspectral.parameters import check_option, check_size
from dspectral.store.arrays import compute_digest, write_array
from dspectral.store.corpus import Corpus, SentenceBlock, find_corpus, find_sentences
from dspectral.store.counts import CORPUS_KEY, FORMAT
from dspectral.store.from_text.counting import count_terms, merge_partition
from dspectral.store.from_text.lines import BLOCK_BYTES, MAX_DOCUMENT_BYTES, ReadOptions
from dspectral.store.from_text.text_input import Read, TextInput, TextSources, build_blocks, open_text
from dspectral.store.vocabulary import Vocabulary, find_vocabulary, get_term_index, write_vocabulary
from dspectral.store.writer import StoreWriter, open_writer, write_root
from dspectral.text.cleaning import check_clean
from dspectral.text.term_bytes import take_terms
from dspectral.text.terms import TermTable, count_unspaced_letters, is_unsegmented
from dspectral.text.token_rules import TokenRule
from dspectral.text.tokenizers import Tokenizer, TokenizerLike, as_tokenizer, check_normalize
from dspectral.text.tokens import Tokens
from dspectral.text.words import count_words, look_up_words, tokenize_sentences
from dspectral.types import RARE, Documents

CHARACTERS: TokenRule = "characters"
"""Token rule for scripts without spaces, whose words would be whole clauses."""
N_PARTITIONS = 8
"""Number of hash partitions of the words, merged one after the other."""


@tracked_fit
def build_corpus(  # noqa: PLR0913  options of the reader
    sources: TextSources,
    store: str | PathLike[str],
    *,
    unit: str | None = None,
    field: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    min_count: int = 1,
    lowercase: bool = True,
    tokens: TokenRule | TokenizerLike = "words",
    normalize: str | None = "NFC",
    clean: Collection[str] = (),
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
    long_documents: str = "error",
    missing: str | None = None,
    format: str | None = None,  # noqa: A002  as fsspec, Dask and Pandas call it
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> Corpus:
    r"""Tokenize text files, or texts in memory, and write their sentences as word ids.

    Parameters
    ----------
    sources : str, path, sequence of these, or texts
        Paths or patterns of files, or texts in memory or in Dask, as for :func:`build_store`.
    store : str or path-like
        Local path or fsspec URL of the new corpus.
    unit : {"line", "file", "field", "record"}, optional
        What a sentence is: by default each line of a file, field or text; "file" makes each file one sentence,
        "field" each field or text, "record" each record of a log, as for :func:`build_store`.
    field : str, optional
        Field or column with the text, as for :func:`build_store`.
    encoding, delimiter : str, optional
        Encoding of the files, and field delimiter of csv files, as for :func:`build_store`.
    min_count : int, default=1
        Smallest number of occurrences of a word type; rarer words become type 0, ``"<?>"``.
    lowercase : bool, default=True
        Whether to convert text to lower case.
    tokens : {"words", "blanks", "language", "characters"}, callable or str, default="words"
        Token rule. ``"words"``: words and punctuation at Unicode word boundaries, without format characters; combining
        marks, joiners and inner apostrophes belong to a word. ``"blanks"``: split at spaces, for tokenized text.
        ``"language"``: as words, but U+241A for each string of 40 or more characters that is not language, such as
        base64. ``"characters"``: as words, but runs of kana and pairs of neighboring letters in scripts without
        spaces, such as Japanese, Chinese and Thai. ``"words"`` and ``"language"`` become ``"characters"`` if words in
        such scripts have more than four letters on average; the provenance records the rule. Or a function from a
        sentence to a list of tokens: a top-level function of a module, its name ``"module:function"``, or an object
        with a name and a version, such as a spaCy pipeline.
    normalize : {"NFC"} or None, default="NFC"
        Unicode normalization form of the text.
    clean : collection of str, default=()
        Parts of the text to mask before it is tokenized: "headers" of e-mails, "quotes" (quoted lines), "signatures",
        "markup" of HTML, "urls", "users" (user names and e-mail addresses), "timestamps", and "ids" (UUIDs).
    block_bytes, errors, max_document_bytes, long_documents, missing, format : int or str, optional
        Size of blocks, and treatment of unreadable text, as for :func:`build_store`.
    overwrite : bool, default=False
        Whether to replace a finished corpus, which stays unchanged until the new one is complete.
    storage_options, source_options : dict, optional
        Options of the file systems of the corpus and of the sources.

    Returns
    -------
    Corpus
        The finished corpus.

    Raises
    ------
    ValueError
        If a source cannot be read, or there is no word.
    StoreError
        If there is a finished corpus of other text or arguments.

    Notes
    -----
    Two passes over the text, three if the rule changes to ``"characters"``. A task holds about ten times
    ``block_bytes``, or the vocabulary. Interrupted builds resume as for :func:`build_store`.

    Examples
    --------
    >>> import fsspec
    >>> with fsspec.open("memory://pets.txt", "w") as file:
    ...     _ = file.write("the cat sat\nthe dog\n")
    >>> corpus = build_corpus("memory://pets.txt", "memory://pets.zarr", min_count=2)
    >>> corpus.words, corpus.counts
    (['<?>', 'the'], array([3, 2]))
    """
    min_count = check_size("min_count", min_count)
    cut_by = _resolve_token_rule(tokens)
    token_rule_name = cut_by.name if isinstance(cut_by, Tokenizer) else cut_by
    settings: dict[str, Any] = {"min_count": min_count, "lowercase": lowercase, "tokens": token_rule_name}
    settings |= {"normalize": normalize} if check_normalize(normalize) else {}
    rules = check_clean(clean)
    settings |= {"clean": rules} if clean else {}
    kind, limit = (unit, field, encoding, delimiter), (max_document_bytes, long_documents)
    read_options = ReadOptions(*kind, block_bytes, errors, source_options, *limit, missing, format)
    text = open_text(sources, read_options, as_sentences=True)
    provenance = {
        "sources": text.describe(),
        "block_bytes": text.read_options.block_bytes,
        "errors": errors,
        **read_options.record(),
        "corpus": settings if text.by_lines else {**settings, "unit": unit},
    }
    options: dict[str, Any] = {"lowercase": lowercase, "normalize": normalize is not None, "clean": rules}
    cut = partial(tokenize_sentences, cut=cut_by, **options)
    with open_writer(store, storage_options, provenance, overwrite=overwrite, content=text.content) as writer:
        return _build(writer, text, cut, min_count)


def _build(writer: StoreWriter, text: TextInput, cut: "partial[Tokens]", min_count: int) -> Corpus:
    writer, ranges, read = text.open_parts(writer)
    if writer.finished is not None:
        return cast(Corpus, writer.finished)
    # The completion marker of the vocabulary ends pass one; an interrupted build then resumes with pass two.
    if find_vocabulary(writer.location, writer.vocabulary) is None and not _count_types(
        writer, ranges, read, cut, min_count
    ):
        _count_types(writer, ranges, read, partial(cut, cut=CHARACTERS), min_count, use_characters=True)
    if (writer.location.read_attributes(writer.vocabulary) or {}).get("tokens") == CHARACTERS:
        settings = {**writer.provenance["corpus"], "tokens": CHARACTERS}
        writer = writer._replace(provenance={**writer.provenance, "corpus": settings})
        cut = partial(cut, cut=CHARACTERS)
    location, path, call = writer.location, writer.vocabulary, uuid4().hex

    def write(name: str, documents: Documents, *, is_last: bool) -> SentenceBlock:
        ids, offsets = look_up_words(cut(documents), get_term_index(location, path, call))
        write_array(location, f"{name}/ids", ids)
        write_array(location, f"{name}/offsets", offsets)
        block = SentenceBlock(name, len(offsets) - 1, len(ids), is_last, compute_digest(ids, offsets))
        location.write_attributes(name, {key: value for key, value in block._asdict().items() if key != "name"})
        return block

    find = partial(find_sentences, location)
    blocks = build_blocks(ranges, writer, read, write, find, name="number-words")
    return _finish(text.check_unchanged(writer), blocks)


def _resolve_token_rule(tokens: TokenRule | TokenizerLike) -> TokenRule | Tokenizer:
    if isinstance(tokens, str) and ":" not in tokens:
        check_option("tokens", tokens, get_args(TokenRule))
        return cast(TokenRule, tokens)
    tokenizer = as_tokenizer(tokens, "tokens")
    if tokenizer is None:
        raise TypeError("tokens=None must be the name of a rule or a function")
    return tokenizer.resolve()


def _count_types(
    writer: StoreWriter,
    ranges: Sequence[Any],
    read: Read,
    cut: "partial[Tokens]",
    min_count: int,
    *,
    use_characters: bool = False,
) -> bool:
    """Pass one: write the vocabulary; return False if the token rule does not suit the scripts of the text."""
    names, _ = count_terms(
        writer, ranges, read, lambda documents: count_words(cut(documents)), N_PARTITIONS, second_rule=use_characters
    )
    location = writer.location

    def merge(partition: int) -> tuple[TermTable, int, tuple[int, int]]:
        """Merge a partition of all blocks; return the frequent types, the number of tokens and the letter counts."""
        merged = merge_partition(partition, location=location, names=names)
        is_frequent = merged.counts >= min_count
        # A word "<?>" in the text would duplicate type 0, so its tokens count as rare.
        as_long = is_frequent & (np.diff(merged.terms.offsets) == len(RARE))
        literal = [i for i in np.flatnonzero(as_long).tolist() if merged.terms.text(i) == RARE.encode()]
        is_frequent[literal] = False
        return merged.filter(is_frequent), int(merged.counts.sum()), count_unspaced_letters(merged)

    parts = run_tasks(merge, list(range(N_PARTITIONS)), name="merge-words")
    if cut.keywords["cut"] in ("words", "language") and is_unsegmented([letters for *_, letters in parts]):
        return False
    n_tokens = sum(tokens for _, tokens, _ in parts)
    if not n_tokens:
        raise ValueError(
            f"{', '.join(sorted({file_range.url for file_range in ranges}))} has 0 words, but needs at least one"
        )
    # The merged table is in byte order, and the stable sort keeps this order for equal counts.
    first, *others = (table for table, *_ in parts)
    merged = first.merge(*others)
    order = np.argsort(-merged.counts, kind="stable")
    terms = take_terms(merged.terms, order)
    # Type 0 is always first; it counts the tokens of dropped types.
    data = np.concatenate([np.frombuffer(RARE.encode(), dtype=np.uint8), terms.data])
    offsets = np.concatenate([[0], terms.offsets + len(RARE)])
    rare = [n_tokens - int(merged.counts.sum())]
    counts = np.concatenate([rare, merged.counts[order]])
    # The document frequency of type 0 is unknown and stored as 0.
    frequency = np.concatenate([[0], merged.document_frequency[order]])
    vocabulary = Vocabulary(Documents(data, offsets), frequency, counts)
    write_vocabulary(
        writer.location, writer.vocabulary, vocabulary, **({"tokens": CHARACTERS} if use_characters else {})
    )
    return True


def _finish(writer: StoreWriter, blocks: list[SentenceBlock]) -> Corpus:
    """Write the root, which makes the corpus complete."""
    # Unlike in count stores, empty blocks are kept.
    write_root(writer, CORPUS_KEY, {"format": FORMAT, "blocks": blocks, "provenance": writer.provenance})
    return cast(Corpus, find_corpus(writer.location))
