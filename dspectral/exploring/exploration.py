"""Explore a text: from sources to an HTML page."""

import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from glob import has_magic
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import numpy as np

from dspectral.engine.around.file_systems import open_file_system
from dspectral.exploring import steps
from dspectral.exploring.documents import detect_unit, list_sources, project_documents
from dspectral.exploring.findings import ROWS, TEXT, TOKENS, Sizes, StageCallback, StageTimer, get_default_min_count
from dspectral.exploring.frequent_words import FrequentWords, describe_documents
from dspectral.exploring.function_words import find_language, find_spread_words
from dspectral.exploring.groups import DocumentGroups, compute_topics_by, read_groups
from dspectral.exploring.page import Exploration
from dspectral.exploring.stems import choose_stem_length
from dspectral.io.vectors import read_vectors
from dspectral.methods.embeddings.word_embedding import WordEmbedding
from dspectral.parameters import check_integer
from dspectral.paths import expand_path
from dspectral.store.counts import CountStore
from dspectral.store.from_text.corpus_build import CHARACTERS, build_corpus
from dspectral.store.from_text.lines import BLOCK_BYTES, MAX_DOCUMENT_BYTES, ReadOptions
from dspectral.store.from_text.text_input import TextInput, open_text
from dspectral.text.cleaning import check_clean
from dspectral.text.token_rules import TokenRule
from dspectral.text.tokenizers import TokenizerLike, as_tokenizer
from dspectral.text.weighting import select_columns

MIN_CLUSTERS = 2
MIN_TOKENS = 1_000
"""Tokens from which on words are expected to repeat."""
SOURCE_FIELDS = ("unit", "field", "encoding", "delimiter")
"""Fields of :class:`ReadOptions` that describe a source."""


def explore(  # noqa: PLR0913  options of the reader
    sources: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    texts: Iterable[str] | None = None,
    unit: str | None = None,
    field: str | None = None,
    by: str | Sequence[str] | None = None,
    vectors: Any = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sizes: Sizes | None = None,
    min_count: int | None = None,
    seed: int = 0,
    tokens: TokenRule | TokenizerLike = "language",
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
    long_documents: str = "error",
    missing: str | None = None,
    format: str | None = None,  # noqa: A002  as build_store calls it
    clean: bool | Collection[str] = True,
    scratch: str | PathLike[str] | None = None,
    source_options: dict[str, Any] | None = None,
    stage: StageCallback | None = None,
) -> Exploration:
    r"""Return an HTML page with the topics, documents, words and word classes of a text of any size.

    Parameters
    ----------
    sources : str, path, or sequence of these, default=()
        Paths, glob patterns or fsspec URLs of text files, also compressed, and folders of text or of source code.
    texts : iterable of str, optional
        Documents in memory instead of sources: a list, a generator, a column of a data frame.
    unit : {"line", "file", "field", "record"}, optional
        Unit of text that is one document; by default a line of a txt file, a field of a record, a file of source code,
        and of a log a line with a date or time together with the lines after it that have none.
    field : str, optional
        Field or column with the text; required for jsonl, csv, tsv and Parquet files.
    by : str or sequence of str, optional
        Field or column, or one value for each of the texts: the page shows the shares of topics in each of at most 24
        groups, or over time if all values are dates such as 2026-11-27, 2026-11 or 2026.
    vectors : array or path, optional
        Vectors of the documents from any model, such as a ``.npy`` or Parquet file, as for
        :func:`dspectral.read_vectors`: topics, the map and nearest documents come from them, words from the text.
    encoding : str, optional
        Encoding of the files; by default UTF-8.
    delimiter : str, optional
        Field separator of csv files; by default detected in the header.
    sizes : Sizes, optional
        Maximum sizes of the parts of the page; short texts get smaller parts.
    min_count : int, optional
        Minimum count of a word with a vector and a class; by default 1 to 10, growing with the text.
    seed : int, default=0
        Random seed. The same text, sizes and seed give the same page, except for times.
    tokens : {"language", "words", "characters", "blanks"}, callable or str, default="language"
        Tokenizer, as for :func:`dspectral.build_corpus`; "characters" for languages without blanks.
    block_bytes : int, default=16777216
        Bytes of text in a block; a task needs about ten times as much memory.
    errors : {"strict", "replace"}, default="strict"
        Treatment of bytes that are not UTF-8.
    max_document_bytes, long_documents : int, default=16777216, and str, default="error"
        Maximum bytes of a document, and treatment of longer ones, as for :func:`dspectral.build_corpus`.
    missing : {"error", "empty", "skip"}, optional
        Treatment of missing texts, as for :func:`dspectral.build_store`.
    format : {"txt", "jsonl", "csv", "tsv", "parquet"}, optional
        Format of the files, as for :func:`dspectral.build_store`.
    clean : bool or collection of str, default=True
        Rules for parts of the text to mask, because they are not words, as for :func:`dspectral.build_corpus`;
        here "ids" also masks hexadecimal numbers, "numbers" all numbers, and "signatures", in topics, passages that 1 %
        of the documents repeat. True is all rules. Excerpts are not masked.
    scratch : str or path, optional
        Folder for intermediate results, visible to every worker; they are removed at the end. By default a
        temporary folder.
    source_options : dict, optional
        Options of the fsspec file system.
    stage : callable, optional
        Function from the name of a stage to a context manager around it, for example to show progress.

    Returns
    -------
    Exploration
        Findings: a notebook shows them as a page, ``save`` writes the page.

    Raises
    ------
    ValueError
        If the text has no word, not exactly one of sources and texts is given, a source cannot be read, or ``by`` has
        no dates and more than 24 different values.
    FileNotFoundError
        If a source does not exist.

    Notes
    -----
    Out of core: a task holds one block. This process holds the vocabulary, vectors and neighbor counts of
    ``sizes.n_words`` words (up to ``dspectral.memory-limit``), and the beginnings of a few thousand documents.

    Examples
    --------
    >>> exploration = explore(texts=["the cat sat on the mat", "the dog sat", "a cat and a dog"])
    >>> exploration
    Exploration('3 texts': 3 documents, 14 words)
    >>> exploration.missing["topics"]
    'a topic needs 4 documents and 4 words that are in several documents but not in most; the text has 3 and 0'
    """
    sizes = Sizes() if sizes is None else sizes
    rows = None if vectors is None else read_vectors(vectors)
    for size, value in sizes._asdict().items():
        check_integer(size, value, at_least=1)
    seed = check_integer("seed", seed, at_least=0)
    rules = check_clean(clean)
    stages, start = StageTimer(stage or nullcontext), time.perf_counter()
    with ExitStack() as stack:
        folder = _make_scratch_folder(stack, scratch)
        paths, n_texts = _resolve_sources(sources, texts, folder, stages)
        # With a field, each record is a document; build_corpus would read each of its lines as a sentence.
        unit = "field" if unit is None and field is not None else unit
        kind, limit = (unit, field, encoding, delimiter), (max_document_bytes, long_documents)
        read_options = ReadOptions(*kind, block_bytes, errors, source_options, *limit, missing, format)
        files = paths if texts is not None else list_sources(paths, read_options)
        text = open_text(files, read_options, as_sentences=True)
        if unit is None and (detected := detect_unit(text)):
            read_options = read_options._replace(unit=detected)
            text = open_text(files, read_options, as_sentences=True)
        groups = None
        if by is not None:
            with stages.measure("Read the groups of documents", TEXT if isinstance(by, str) else "memory"):
                groups = read_groups(by, files, read_options, n_texts)
        with stages.measure("Count the words", TEXT, 2):
            corpus = build_corpus(
                files,
                f"{folder}/corpus.zarr",
                min_count=1,  # all types are kept; rare ones are removed when all are counted
                lowercase=True,
                tokens=tokens,
                clean=rules,
                **_get_fields(read_options, *SOURCE_FIELDS, "block_bytes", "errors", "missing", "format"),
                max_document_bytes=max_document_bytes,
                long_documents=long_documents,
                source_options=source_options,
            )
        min_count = min_count or get_default_min_count(corpus.n_tokens)
        with stages.measure("Find passages that documents repeat", TOKENS):
            words = FrequentWords.from_corpus(corpus, min_count=min_count, n_words=sizes.n_words, clean=rules)
        if not words.n_tokens:
            raise ValueError(f"{'texts' if n_texts else ', '.join(paths)} must hold at least one word, but has none")
        name = _get_title(paths[0])
        title = name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"
        title = title if texts is None else f"{n_texts:,} texts"
        tokenizer = tokens if isinstance(tokens, str) else repr(as_tokenizer(tokens))
        exploration = _analyze_words(title, words, text, folder, sizes, stages, seed, tokenizer, groups, rows)
    names = None if texts is not None else [_get_public_name(path) for path in paths]
    fields = _get_fields(read_options, *SOURCE_FIELDS) | {"by": by if by is None or isinstance(by, str) else "groups"}
    # Without options of file systems, which may hold secrets.
    limits = _get_fields(read_options, "block_bytes", "errors") | read_options.record()
    exploration.settings |= {"sources": names, "min_count": min_count, "seed": seed, **limits}
    if vectors is not None:
        is_path = isinstance(vectors, str | PathLike)
        fields["vectors"] = _get_public_name(expand_path(vectors)) if is_path else "vectors"
    exploration.settings |= {field: value for field, value in fields.items() if value is not None}
    if tokenizer in ("words", "language"):
        tokenizer = corpus.provenance["corpus"]["tokens"]
    if tokenizer != "language":
        exploration.settings["tokens"] = tokenizer
    exploration.stages, exploration.seconds = stages.finished, time.perf_counter() - start
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    exploration.peak_memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
    return exploration


def _make_scratch_folder(stack: ExitStack, scratch: str | PathLike[str] | None) -> str:
    """Create a folder that is removed when the stack is closed; return its URL."""
    if scratch is None:
        return stack.enter_context(tempfile.TemporaryDirectory(prefix="dspectral-explore-"))
    url = f"{expand_path(scratch).rstrip('/')}/explore-{uuid4().hex}"
    file_system, path = open_file_system(url, {})
    file_system.makedirs(path, exist_ok=True)
    stack.callback(file_system.rm, path, recursive=True)
    return url


def _resolve_sources(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    texts: Iterable[str] | None,
    folder: str,
    stages: StageTimer,
) -> tuple[list[str], int]:
    """Return the paths to read; texts in memory are written to one file first, and counted."""
    paths = [expand_path(s) for s in ([sources] if isinstance(sources, str | PathLike) else sources)]
    if bool(paths) == (texts is not None):
        given = "neither" if texts is None else "both"
        raise ValueError(
            f"{given} of sources (paths of text files) and texts (an iterable of str) are given: pass exactly one"
        )
    if texts is None:
        return paths, 0
    if isinstance(texts, str | bytes):
        raise TypeError(f"texts={texts!r:.60} must be an iterable of str, not one str: pass [text]")
    path, n, n_filled = f"{folder}/texts.txt", 0, 0
    with (
        stages.measure("Write the texts to a file", "memory"),
        fsspec.open(path, "wt", encoding="utf-8", newline="\n") as file,
    ):
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"texts must hold str, but text {n} is {text!r:.60}")
            # One text per line, empty ones too, so that row numbers of documents are those of the texts.
            line = " ".join(text.split())
            file.write(line + "\n")
            n, n_filled = n + 1, n_filled + bool(line)
    if not n_filled:
        raise ValueError(f"texts must hold at least one word, but all {n} are empty")
    return [path], n


def _get_fields(read_options: ReadOptions, *names: str) -> dict[str, Any]:
    return {name: getattr(read_options, name) for name in names}


def _get_title(source: str) -> str:
    """Return the last part of a path; before a pattern its folder.

    >>> _get_title("data/news.txt"), _get_title("src/**/*.py"), _get_title("logs/*")
    ('news.txt', 'src: *.py', 'logs')
    """
    *folders, last = source.rstrip("/").split("/")
    if not has_magic(last):
        return last
    folder = next((part for part in reversed(folders) if part and not has_magic(part)), "")
    return ": ".join(part for part in (folder, last) if part.strip("*")) or last


def _get_public_name(source: str) -> str:
    """Return a source as the page names it: local paths without their folders, which are private."""
    is_local = Path(source).is_absolute() or source.startswith(("file:", "local:", "~"))
    return source.rstrip("/").rpartition("/")[2] if is_local else source


def _analyze_words(
    title: str,
    words: FrequentWords,
    text: TextInput,
    folder: str,
    sizes: Sizes,
    stages: StageTimer,
    seed: int,
    tokenizer: str,
    groups: DocumentGroups | None,
    vectors: Any,
) -> Exploration:
    """Compute all findings from the counted words."""
    with stages.measure("Count documents and sentences", TOKENS):
        documents = describe_documents(words)
    with stages.measure("Choose the length of stems", "some documents"):
        stem_length = choose_stem_length(words, documents.is_repeated)
    with stages.measure("Count the words of each document", TOKENS):
        store = steps.count_documents(words, documents.is_repeated, f"{folder}/documents.zarr", stem_length)
    sizes = sizes.limit_to(n_documents=documents.n_documents, n_words=len(words.words) - 1)
    n_bytes = [source["n_bytes"] for source in words.corpus.provenance["sources"]]
    size = {
        "documents": documents.n_documents,
        "sentences": documents.n_sentences,
        "tokens": words.n_tokens,
        "types": words.n_types,
        "bytes": None if None in n_bytes else sum(n_bytes),
    }
    exploration = Exploration(title, size, {"sizes": sizes._asdict()}, steps.describe_vocabulary(words))
    if n_codes := words.n_codes:
        exploration.missing["strings"] = (
            f"{n_codes:,} strings of 40 characters or more that are not words, such as lines of base64"
        )
    exploration.masked, exploration.stem_length = words.masked, stem_length
    if documents.n_covered:
        exploration.masked["words of repeated passages"] = documents.n_covered
    exploration.n_repeated = sum(int(mask.sum()) for mask in documents.is_repeated.values())
    exploration.warning = _find_tokenization_problem(words, tokenizer)
    if exploration.warning:
        warnings.warn(exploration.warning, stacklevel=3)
    _add_topics(exploration, store, words, text, sizes, stages, seed, groups, vectors)
    if sizes.n_clusters < MIN_CLUSTERS:
        exploration.missing["words"] = (
            f"vectors and classes need at least {8 * MIN_CLUSTERS} words, but the text has {len(words.words) - 1}"
        )
    elif not documents.has_pairs:
        exploration.missing["words"] = "vectors and classes need sentences of two words, but every sentence has one"
    else:
        with stages.measure("Learn word vectors", TOKENS):
            embedding = WordEmbedding(sizes.n_dimensions, window=5, random_state=seed).fit(words.get_sentences())
        with stages.measure("Compute nearest words and the map of words", "vectors"):
            exploration.space = steps.make_word_space(embedding, sizes, seed=seed)
        with stages.measure("Cluster the words", TOKENS):
            exploration.classes = steps.find_classes(words, sizes.n_clusters, seed=seed)
    return exploration


def _find_tokenization_problem(words: FrequentWords, tokenizer: str) -> str:
    """Return a warning if tokens are probably not words, and a tokenizer to use; empty if they are."""
    if tokenizer in ("words", "language") and words.corpus.provenance["corpus"]["tokens"] == CHARACTERS:
        return (
            "the text has no blanks, so words are pairs of its letters, or runs of kana: for whole words pass "
            "tokens=MODULE:FUNCTION (--tokenizer), a tokenizer of the language, such as nagisa:wakati, jieba:lcut, "
            "pythainlp.tokenize:word_tokenize, laonlp.tokenize:word_tokenize or khmernltk:word_tokenize"
        )
    if words.n_tokens >= MIN_TOKENS and 2 * words.n_types > words.n_tokens:
        return (
            f"words hardly repeat ({words.n_types:,} different ones among {words.n_tokens:,}): add more text, or pass "
            "tokens=MODULE:FUNCTION (--tokenizer), a function that returns stems"
        )
    return ""


def _add_topics(
    exploration: Exploration,
    store: CountStore,
    words: FrequentWords,
    text: TextInput,
    sizes: Sizes,
    stages: StageTimer,
    seed: int,
    groups: DocumentGroups | None,
    vectors: Any,
) -> None:
    """Add topics and documents, or the reason why there are none."""
    n_distinct = store.n_rows - exploration.n_repeated
    with stages.measure("Find function words", ROWS):
        sample = steps.sample_rows(store)
        exploration.language, is_function = find_language(words.words, words.counts)
        are_pairs = words.corpus.provenance["corpus"]["tokens"] == CHARACTERS
        is_word = steps.can_be_topic_words(words.words, are_pairs=are_pairs)
        columns = np.flatnonzero(is_word & ~is_function)
        max_documents = steps.MAX_DF_CANDIDATES[0] * n_distinct * sample.shape[0] / store.n_rows
        is_function[columns] = find_spread_words(select_columns(sample, columns), max_documents)
    exploration.function_words = [words.words[i] for i in np.flatnonzero(is_function).tolist()]
    max_topics = sizes.n_components if vectors is None else min(sizes.n_components, vectors.shape[1])
    topics, n_usable = steps.make_topic_model(
        store, words.words, max_topics, is_function | ~is_word, n_distinct=n_distinct, seed=seed
    )
    if not topics.n_topics:
        exploration.missing["topics"] = (
            "a topic needs 4 documents and 4 words that are in several documents but not in most; the text has "
            f"{exploration.size['documents']} and {n_usable}"
        )
        return
    with stages.measure("Find topics", ROWS):
        n_passes, (topics, coherence, has_subject) = steps.fit_topics(topics, store, words.words, sample, vectors)
    stages.finished[-1] = stages.finished[-1]._replace(n_passes=n_passes)
    if not has_subject.any():
        exploration.missing["topics"] = (
            "topics with a subject: words of topics are hardly more often together in these documents than by chance, "
            "so there is too little text for them"
        )
    projected = project_documents(store, topics, vectors)
    with stages.measure("Find nearest documents", ROWS, 3):
        document_choice = steps.choose_documents(store, projected, topics, sizes.n_documents, seed=seed)
    with stages.measure("Compute the map of documents", ROWS):
        document_map = steps.make_document_map(projected, topics, sizes.n_mapped_documents, seed=seed)
    exploration.document_map = document_map
    mapped = np.zeros(0, np.int64) if document_map is None else document_map.rows
    with stages.measure("Read the documents of the page", TEXT):
        exploration.documents = steps.read_texts(words, topics, *document_choice, text, mapped)
    scale = store.n_rows / n_distinct if vectors is None else 1.0
    exploration.topics = steps.describe_topics(topics, exploration.documents, coherence, has_subject, scale)
    if groups is not None:
        with stages.measure("Compute the topics of each group", ROWS):
            exploration.topics_by = compute_topics_by(store if vectors is None else vectors, topics, groups)
