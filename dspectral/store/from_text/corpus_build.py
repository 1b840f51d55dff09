"""Text to a corpus, sentences of token ids in Zarr: two passes."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any, cast, get_args
from uuid import uuid4

import numpy as np

from dspectral.engine import run_tasks, tracked_fit
from dspectral.store.arrays import compute_digest, with_content_hash, write_array
from dspectral.store.corpus import Corpus, SentenceBlock, find_sentences
from dspectral.store.counts import CORPUS_KEY, FORMAT
from dspectral.store.draft import StoreWriter, open_writer
from dspectral.store.from_text.counting import count_terms, merge_partition
from dspectral.store.from_text.lines import BLOCK_BYTES, MAX_DOCUMENT_BYTES, DocumentSizeLimit, ReadOptions
from dspectral.store.from_text.planned_text import Read, TextInput, build_blocks, open_text
from dspectral.store.from_text.texts import TextSources
from dspectral.store.location import Location, check_option, check_size
from dspectral.store.vocabulary import PATH as VOCABULARY
from dspectral.store.vocabulary import Vocabulary, find_vocabulary, get_term_index, write_vocabulary
from dspectral.text.term_bytes import take_terms
from dspectral.text.terms import TermTable, count_unspaced_letters, is_unsegmented
from dspectral.text.token_rules import TokenRule
from dspectral.text.tokenizers import (
    Tokenizer,
    TokenizerLike,
    as_tokenizer,
    check_normalize,
    wrap_tokenizer_names,
)
from dspectral.text.tokens import Tokens
from dspectral.text.words import count_words, number_words, tokenize_sentences
from dspectral.types import Documents

RARE = "<?>"
"""Type 0: words that occur too seldom for a type of their own, and words that were never seen."""
CHARACTERS: TokenRule = "characters"
"""Rule for text whose words would be whole clauses."""
N_PARTITIONS = 8
"""Parts, by a hash of the word, in which words are counted one after the other."""


@tracked_fit
def build_corpus(
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
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
    long_documents: str = "error",
    missing: str | None = None,
    format: str | None = None,  # noqa: A002  as fsspec, Dask and Pandas call it
    storage_options: dict[str, Any] | None = None,
    source_options: dict[str, Any] | None = None,
) -> Corpus:
    r"""Write the sentences of text files, or of texts in memory, as ids of their words.

    Parameters
    ----------
    sources : str, path, sequence of these, or texts
        Files by their names or patterns, or texts in memory or of Dask, as for :func:`build_store`.
    store : str or path-like
        Local path or fsspec URL of the corpus to make.
    unit : {"line", "file", "field"}, optional
        Unit of text that is a sentence: by default each line, of a file as of a field or a text in memory, which may
        hold several; "file" makes a whole file one sentence, "field" a whole field or text, its line ends being blanks.
    field : str, optional
        Name of the field or column that holds the text, as for :func:`build_store`.
    encoding, delimiter : str, optional
        Encoding of the files, and character between the fields of csv files, as for :func:`build_store`.
    min_count : int, default=1
        Fewest times that a word must occur to have a type of its own; rarer ones become type 0, ``"<?>"``.
    lowercase : bool, default=True
        Whether the case of the text is lowered first.
    tokens : {"words", "blanks", "language", "characters"}, callable or str, default="words"
        Rule by which sentences are cut into tokens: into words and punctuation at the word boundaries of Unicode, where
        marks and joiners belong to a word, as apostrophes between its letters do, and format characters are left out;
        at blanks, for text that is cut already; as words, but one U+241A for each string of 40 characters or more that
        is no language, such as a line of base64; or as words, but where a script has no blanks, as those of Japanese,
        Chinese and Thai, runs of kana, and pairs of neighboring letters, each with the marks, vowels and final
        consonants that belong to it. ``"words"`` and ``"language"`` become ``"characters"`` where words in such scripts
        would have more than four letters on average; the provenance holds what was done. Or a function from a sentence
        to a list of tokens: one at the top level of a module, its name ``"module:function"``, or an object with a name
        and a version, such as a pipeline of spaCy.
    normalize : {"NFC"} or None, default="NFC"
        Unicode's form that text is brought to first, in which a letter and its accent are one character.
    block_bytes, errors, max_document_bytes, long_documents, missing, format : int or str, optional
        Size of blocks, and treatment of text that cannot be read as it is, as for :func:`build_store`.
    storage_options, source_options : dict, optional
        Options of the file systems of the corpus and of the sources.

    Returns
    -------
    Corpus
        The finished corpus.

    Raises
    ------
    ValueError
        If a source cannot be read, there is no word, or an unfinished store of another plan is in the way.
    StoreError
        If there is something at ``store`` already.

    Notes
    -----
    Two passes over the text, three where words become pairs of letters. A task holds about ten times ``block_bytes``,
    or the vocabulary. Builds go on, and texts that are no files are kept, as for :func:`build_store`.

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
    shown = cut_by.name if isinstance(cut_by, Tokenizer) else cut_by
    settings: dict[str, Any] = {"min_count": min_count, "lowercase": lowercase, "tokens": shown}
    settings |= {"normalize": normalize} if check_normalize(normalize) else {}
    size_limit = DocumentSizeLimit.checked(max_document_bytes, long_documents)
    kind = unit, field, encoding, delimiter
    read_options = ReadOptions(*kind, block_bytes, errors, source_options, size_limit, missing, format)
    text = open_text(sources, read_options, sentences=True)
    provenance = {
        "sources": text.describe(),
        "block_bytes": text.read_options.block_bytes,
        "errors": errors,
        **read_options.record(),
        "corpus": settings if text.by_lines else {**settings, "unit": unit},
    }
    cut = partial(tokenize_sentences, cut=cut_by, lowercase=lowercase, normalize=normalize is not None)
    with open_writer(
        store, storage_options, provenance, append=False, fingerprints=text.fingerprints
    ) as writer:
        return _build(writer, text, cut, min_count)


def _build(writer: StoreWriter, text: TextInput, cut: "partial[Tokens]", min_count: int) -> Corpus:
    ranges, read = text.opened(writer)
    # Pass one ends with the vocabulary's mark: where that is, a stopped build goes on with pass two.
    if find_vocabulary(writer.where) is None and not _count_types(writer, ranges, read, cut, min_count):
        _count_types(writer, ranges, read, partial(cut, cut=CHARACTERS), min_count, use_characters=True)
    if (writer.where.attributes(VOCABULARY) or {}).get("tokens") == CHARACTERS:
        settings = {**writer.provenance["corpus"], "tokens": CHARACTERS}
        writer = writer._replace(provenance={**writer.provenance, "corpus": settings})
        cut = partial(cut, cut=CHARACTERS)
    write = partial(_write_sentences, where=writer.where, cut=cut, call=uuid4().hex)
    find = partial(find_sentences, writer.where)
    blocks = build_blocks(ranges, writer, read, write, find, name="number-words")
    return _finish(text.check_unchanged(writer), blocks)


def _resolve_token_rule(tokens: TokenRule | TokenizerLike) -> TokenRule | Tokenizer:
    if isinstance(tokens, str) and ":" not in tokens:
        check_option("tokens", tokens, get_args(TokenRule))
        return cast(TokenRule, tokens)
    known = as_tokenizer(tokens, "tokens")
    if known is None:
        raise TypeError("tokens is None, but it must be the name of a rule or a function")
    return known.resolve()


def _count_types(
    writer: StoreWriter,
    ranges: Sequence[Any],
    read: Read,
    cut: "partial[Tokens]",
    min_count: int,
    *,
    use_characters: bool = False,
) -> bool:
    """Pass one: write the vocabulary, and report whether the rule does for the scripts of the text."""
    names, _ = count_terms(
        writer, ranges, read, partial(_count_block_words, cut=cut), N_PARTITIONS, second_rule=use_characters
    )
    merge = partial(_merge_types, where=writer.where, names=names, min_count=min_count)
    parts = run_tasks(merge, list(range(N_PARTITIONS)), name="merge-words")
    if cut.keywords["cut"] in ("words", "language") and is_unsegmented([letters for *_, letters in parts]):
        return False
    n_tokens = sum(tokens for _, tokens, _ in parts)
    if not n_tokens:
        raise ValueError(f"no word at all in {', '.join(sorted({file_range.url for file_range in ranges}))}")
    # A merged table is in byte order; the stable sort keeps that order among words of equal count.
    first, *others = (table for table, *_ in parts)
    merged = first.merge(*others)
    order = np.argsort(-merged.counts, kind="stable")
    terms = take_terms(merged.terms, order)
    # Type 0 goes before all others, whatever its count: the tokens that are in no table any more.
    data = np.concatenate([np.frombuffer(RARE.encode(), dtype=np.uint8), terms.data])
    offsets = np.concatenate([[0], terms.offsets + len(RARE)])
    rare = [n_tokens - int(merged.counts.sum())]
    counts = np.concatenate([rare, merged.counts[order]])
    # In how many sentences the rare words are together is not known: it is written as 0.
    frequency = np.concatenate([[0], merged.document_frequency[order]])
    vocabulary = Vocabulary(Documents(data, offsets), frequency, counts)
    write_vocabulary(writer.where, vocabulary, **({"tokens": CHARACTERS} if use_characters else {}))
    return True


def _count_block_words(documents: Documents, *, cut: Callable[[Documents], Tokens]) -> TermTable:
    return count_words(cut(documents))


def _merge_types(
    part: int, *, where: Location, names: list[str], min_count: int
) -> tuple[TermTable, int, tuple[int, int]]:
    """Merge a part of all blocks; return the types that are frequent enough, and tokens and letters of all."""
    merged = merge_partition(part, where=where, names=names)
    kept = merged.counts >= min_count
    # The word "<?>" in the text would be a second type of that name: its tokens count as rare ones.
    as_long = kept & (np.diff(merged.terms.offsets) == len(RARE))
    literal = [i for i in np.flatnonzero(as_long).tolist() if merged.terms.text(i) == RARE.encode()]
    kept[literal] = False
    return merged.filter(kept), int(merged.counts.sum()), count_unspaced_letters(merged)


def _write_sentences(
    name: str,
    documents: Documents,
    *,
    last: bool,
    where: Location,
    cut: Callable[[Documents], Tokens],
    call: str,
) -> SentenceBlock:
    ids, offsets = number_words(cut(documents), get_term_index(where, call))
    store = where.open(read_only=False)
    write_array(store, f"{name}/ids", ids)
    write_array(store, f"{name}/offsets", offsets)
    block = SentenceBlock(name, len(offsets) - 1, len(ids), last, compute_digest(ids, offsets))
    mark = {key: value for key, value in block._asdict().items() if key != "name"}
    where.mark(name, mark)
    return block


def _finish(writer: StoreWriter, blocks: list[SentenceBlock]) -> Corpus:
    """Write the root: from then on the corpus opens."""
    # Unlike a store of counts, blocks without sentences stay: their marks are all that a reader asks for.
    head = {"format": FORMAT, "blocks": [list(block) for block in blocks], "provenance": writer.provenance}
    writer.where.mark("", {CORPUS_KEY: with_content_hash(head)})
    writer.where.clear("scratch")
    return Corpus(writer.where, tuple(blocks), wrap_tokenizer_names(writer.provenance))
