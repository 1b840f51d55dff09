"""One call from text to a page: the steps, and the page that they leave."""

import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec

from dspectral.exploring import steps
from dspectral.exploring.findings import ROWS, TEXT, TOKENS, Announce, Sizes, Stages, least_count
from dspectral.exploring.frequent_words import FrequentWords, count_filled
from dspectral.exploring.page import Exploration
from dspectral.inputs.parameters import check_integer
from dspectral.methods.embeddings.word_embedding import WordEmbedding
from dspectral.paths import expand_path
from dspectral.store.corpus import Corpus
from dspectral.store.counts import CountStore
from dspectral.store.from_text.corpus_build import PAIRS, build_corpus
from dspectral.store.from_text.lines import BLOCK_BYTES, MOST_BYTES, Longest, Reading
from dspectral.store.from_text.planned_text import PlannedText, plan_text
from dspectral.text.cutting import Cut
from dspectral.text.tokenizers import TokenizerLike, as_tokenizer

LEAST_CLUSTERS = 2
TOKENIZERS = (
    ("\u3041", "\u30ff", "such as nagisa:wakati after pip install nagisa"),
    ("\u3400", "\u9fff", "such as jieba:lcut after pip install jieba"),
    ("\u0e01", "\u0e7f", "such as pythainlp.tokenize:word_tokenize after pip install pythainlp"),
    ("\u0e80", "\u0eff", "such as laonlp.tokenize:word_tokenize after pip install laonlp"),
    ("\u1780", "\u17ff", "such as khmernltk:word_tokenize after pip install khmer-nltk"),
)
"""First and last letter of a script without blanks, and a function that cuts it into words."""
LEAST_TOKENS = 1_000
"""Words of a text in which they should repeat."""
KIND = ("unit", "field", "encoding", "delimiter")
"""Fields of :class:`Reading` that say what a source is."""


def explore(  # noqa: PLR0913  what text may be like, by keywords
    sources: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    texts: Iterable[str] | None = None,
    unit: str | None = None,
    field: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sizes: Sizes | None = None,
    min_count: int | None = None,
    seed: int = 0,
    tokens: Cut | TokenizerLike = "language",
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
    max_document_bytes: int = MOST_BYTES,
    long_documents: str = "error",
    missing: str | None = None,
    format: str | None = None,  # noqa: A002  as build_store calls it
    scratch: str | PathLike[str] | None = None,
    source_options: dict[str, Any] | None = None,
    stage: Announce | None = None,
) -> Exploration:
    r"""Find out what is in a text of any size, as a page to browse.

    Parameters
    ----------
    sources : str, path, or sequence of these, default=()
        Paths, globs or fsspec URLs of text files, also compressed; each line is a document.
    texts : iterable of str, optional
        Documents in memory instead of sources: a list, a generator, a column of a data frame.
    unit : {"line", "file", "field"}, optional
        Unit of text that is a document; by default a line of a txt file, a field of a record elsewhere.
    field : str, optional
        Name of the field or column that holds the text; required for jsonl, csv, tsv and Parquet files.
    encoding : str, optional
        Encoding of the files; UTF-8 by default.
    delimiter : str, optional
        Character between the fields of csv files; by default found from the header.
    sizes : Sizes, optional
        Largest sizes of what the page shows; short texts get less of it.
    min_count : int, optional
        Fewest times that a word must occur to have a vector and a class; by default 1 to 10, rising with the text.
    seed : int, default=0
        Seed of everything random. The same text, sizes and seed give the same page but for times.
    tokens : {"language", "words", "characters", "blanks"}, callable or str, default="language"
        How text is cut into words, as for :func:`dspectral.build_corpus`, "characters" for languages without blanks.
    block_bytes : int, default=16777216
        Bytes of text behind a block; a task holds about ten times that.
    errors : {"strict", "replace"}, default="strict"
        Treatment of bytes that are not UTF-8.
    max_document_bytes, long_documents : int, default=16777216, and str, default="error"
        Most bytes of a document, and what becomes of a longer one, as for :func:`dspectral.build_corpus`.
    missing : {"error", "empty", "skip"}, optional
        Treatment of a text that is missing, as for :func:`dspectral.build_store`.
    format : {"txt", "jsonl", "csv", "tsv", "parquet"}, optional
        Format of the files, as for :func:`dspectral.build_store`.
    scratch : str or path, optional
        Folder for intermediate results, which every worker must see and are removed; by default a temporary one.
    source_options : dict, optional
        Options of the sources' file systems.
    stage : callable, optional
        Context manager that is entered with the name of each stage, to show progress for instance.

    Returns
    -------
    Exploration
        The page: a notebook shows it, ``save`` writes it.

    Raises
    ------
    ValueError
        If there is no word, not one of sources and texts is given, or a source cannot be read.
    FileNotFoundError
        If a source is missing.

    Notes
    -----
    Out of core: a task holds a block, and this process the vocabulary, some numbers for each of ``sizes.n_words``
    words, their neighbor counts (up to ``dspectral.memory-limit``), and some thousand beginnings of documents.

    Examples
    --------
    >>> found = explore(texts=["the cat sat on the mat", "the dog sat", "a cat and a dog"])
    >>> found
    Exploration('3 texts': 3 documents, 14 words)
    >>> found.missing["topics"]
    'there are 3 documents with words, of which 0 are in several documents but not in most: a topic needs 4 of each'
    """
    sizes = Sizes() if sizes is None else sizes
    for size, value in sizes._asdict().items():
        check_integer(size, value, at_least=1)
    seed = check_integer("seed", seed, at_least=0)
    stages, start = Stages(stage), time.perf_counter()
    with ExitStack() as stack:
        folder = _folder(stack, scratch)
        paths, n_texts = _files(sources, texts, folder, stages)
        # A record is a document, where a corpus would take each line of it for a sentence.
        unit = "field" if unit is None and field is not None else unit
        limit = Longest.checked(max_document_bytes, long_documents)
        kind = unit, field, encoding, delimiter
        reading = Reading(*kind, block_bytes, errors, source_options, limit, missing, format)
        text = plan_text(paths, reading, sentences=True)
        corpus = _counted(paths, folder, reading, stages, tokens)
        least = min_count or least_count(corpus.n_tokens)
        words = FrequentWords.of(corpus, min_count=least, n_words=sizes.n_words)
        if not words.n_tokens:
            raise ValueError(f"no word at all in {'the texts' if n_texts else ', '.join(paths)}")
        name = paths[0].rstrip("/").rpartition("/")[2]
        title = name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"
        title = title if texts is None else f"{n_texts:,} texts"
        asked = tokens if isinstance(tokens, str) else repr(as_tokenizer(tokens))
        found = _found(title, words, text, folder, sizes, stages, seed, asked)
    shown = None if texts is not None else [_shown(path) for path in paths]
    found.settings |= {"sources": shown} | _settings(reading, least, seed)
    if asked in ("words", "language"):
        asked = corpus.provenance["corpus"]["tokens"]
    if asked != "language":
        found.settings["tokens"] = asked
    found.stages, found.seconds = stages.finished, time.perf_counter() - start
    kibibytes = 1 if sys.platform == "darwin" else 1024
    found.peak_memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kibibytes
    return found


def _folder(stack: ExitStack, scratch: str | PathLike[str] | None) -> str:
    """Return a new folder that is gone when the stack is left."""
    if scratch is None:
        return stack.enter_context(tempfile.TemporaryDirectory(prefix="dspectral-explore-"))
    url = f"{expand_path(scratch).rstrip('/')}/explore-{uuid4().hex}"
    system, path = fsspec.url_to_fs(url)
    system.makedirs(path, exist_ok=True)
    stack.callback(system.rm, path, recursive=True)
    return url


def _files(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    texts: Iterable[str] | None,
    folder: str,
    stages: Stages,
) -> tuple[list[str], int]:
    """Return the files to read, and how many texts in memory were written to the only one of them."""
    paths = [expand_path(s) for s in ([sources] if isinstance(sources, str | PathLike) else sources)]
    if bool(paths) == (texts is not None):
        raise ValueError("give either sources, paths of text files, or texts, an iterable of strings")
    if texts is None:
        return paths, 0
    if isinstance(texts, str | bytes):
        raise TypeError(f"texts is {texts!r:.60}, but it must be an iterable of strings")
    path, n, n_filled = f"{folder}/texts.txt", 0, 0
    with (
        stages.stage("Write the texts to scratch", "memory"),
        fsspec.open(path, "wt", encoding="utf-8", newline="\n") as file,
    ):
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"text {n} is {text!r:.60}, but texts must be strings")
            # A line is a document from here on: line breaks within a text become blanks, and a text without words
            # stays as an empty line, so that numbers of documents are those of the texts.
            line = " ".join(text.split())
            file.write(line + "\n")
            n, n_filled = n + 1, n_filled + bool(line)
    if not n_filled:
        raise ValueError(f"no word at all in the texts, of which there are {n}")
    return [path], n


def _counted(
    paths: list[str], folder: str, reading: Reading, stages: Stages, tokens: Cut | TokenizerLike
) -> Corpus:
    """Build the corpus of which all else is made."""
    with stages.stage("Count and number the words", TEXT, 2):
        return build_corpus(
            paths,
            f"{folder}/corpus.zarr",
            # Every type has a number of its own here; which are rare is decided when all are counted.
            min_count=1,
            lowercase=True,
            tokens=tokens,
            **_named(reading, *KIND, "block_bytes", "errors", "missing", "format"),
            max_document_bytes=reading.longest.n_bytes,
            long_documents=reading.longest.treatment,
            source_options=reading.options,
        )


def _named(reading: Reading, *names: str) -> dict[str, Any]:
    return {name: getattr(reading, name) for name in names}


def _settings(reading: Reading, least: int, seed: int) -> dict[str, Any]:
    """Return what the page says of how the text was read; options of file systems may hold secrets."""
    known = {name: value for name, value in _named(reading, *KIND).items() if value is not None}
    sizes = {"block_bytes": reading.block_bytes, "errors": reading.errors, **reading.longest.record()}
    return {"min_count": least, "seed": seed, **sizes, **known}


def _shown(source: str) -> str:
    """Return a source as the page names it: where a file lies on this machine is nobody else's business."""
    local = Path(source).is_absolute() or source.startswith(("file:", "local:", "~"))
    return source.rstrip("/").rpartition("/")[2] if local else source


def _found(
    title: str,
    words: FrequentWords,
    text: PlannedText,
    folder: str,
    sizes: Sizes,
    stages: Stages,
    seed: int,
    asked: str,
) -> Exploration:
    """Do everything that follows the count of words."""
    with stages.stage("Count documents and sentences", TOKENS):
        n_documents, n_sentences, have_neighbors = count_filled(words)
    with stages.stage("Count the words of each document", TOKENS):
        store = steps.count_documents(words, f"{folder}/documents.zarr")
    # Small text has no room for the sizes that were asked for: from here on they are those that it has.
    sizes = sizes.reduced(n_documents=n_documents, n_words=len(words.words) - 1)
    n_bytes = [span["n_bytes"] for span in words.corpus.provenance["sources"]]
    size = {
        "documents": n_documents,
        "sentences": n_sentences,
        "tokens": words.n_tokens,
        "types": words.n_types,
        "bytes": None if None in n_bytes else sum(n_bytes),
    }
    found = Exploration(title, size, {"sizes": sizes._asdict()}, steps.describe_vocabulary(words))
    if n_codes := words.n_codes:
        found.missing["strings"] = (
            f"{n_codes:,} strings of 40 characters or more that are no language, such as lines of base64"
        )
    found.warning = _what_is_odd(words, asked)
    if found.warning:
        warnings.warn(found.warning, stacklevel=3)
    _add_topics(found, store, words, text, sizes, stages, seed)
    if sizes.n_clusters < LEAST_CLUSTERS:
        n_words, least = len(words.words) - 1, 8 * LEAST_CLUSTERS
        found.missing["words"] = f"there are {n_words} words, and vectors and classes need at least {least}"
    elif not have_neighbors:
        found.missing["words"] = "no word stands beside another one: every sentence is one word"
    else:
        with stages.stage("Learn the vectors of words", TOKENS):
            embedding = WordEmbedding(sizes.n_dimensions, window=5, random_state=seed).fit(words.sentences())
        with stages.stage("Find the nearest words and lay out the map", "vectors"):
            found.space = steps.place_words(embedding, sizes, seed=seed)
        with stages.stage("Find the classes of words", TOKENS):
            found.classes = steps.find_classes(words, sizes.n_clusters, seed=seed)
    return found


def _what_is_odd(words: FrequentWords, asked: str) -> str:
    """Return a sign that tokens are no words of the text, and what would make words; empty if there is none."""
    if asked in ("words", "language") and words.corpus.provenance["corpus"]["tokens"] == PAIRS:
        first = [word[0] for word in words.words[1:]]
        weights = [
            sum(words.counts[1:][[low <= one <= high for one in first]]) for low, high, _ in TOKENIZERS
        ]
        # Japanese, whose letters are those of Chinese too, comes first.
        known = [cure for (*_, cure), n in zip(TOKENIZERS, weights, strict=True) if 5 * n > sum(weights)]
        cure = known[0] if known else "a tokenizer of the language"
        return (
            "this text is written without blanks, and words are pairs of its letters, or runs of kana: for whole words "
            f"give tokens=MODULE:FUNCTION (--tokenizer), {cure}"
        )
    if words.n_tokens >= LEAST_TOKENS and 2 * words.n_types > words.n_tokens:
        return (
            f"words hardly repeat ({words.n_types:,} different ones among {words.n_tokens:,}): "
            "is this text written without blanks? tokens='characters' (--analyzer char) or a tokenizer cuts it"
        )
    return ""


def _add_topics(
    found: Exploration,
    store: CountStore,
    words: FrequentWords,
    text: PlannedText,
    sizes: Sizes,
    stages: Stages,
    seed: int,
) -> None:
    """Find the topics, and the documents that are shown; or say why there are none."""
    pairs = words.corpus.provenance["corpus"]["tokens"] == PAIRS
    topics, n_usable = steps.plan_topics(store, words.words, sizes.n_components, pairs=pairs, seed=seed)
    if not topics.n_topics:
        found.missing["topics"] = (
            f"there are {found.size['documents']} documents with words, of which {n_usable} are in several documents "
            "but not in most: a topic needs 4 of each"
        )
        return
    with stages.stage("Find the topics of documents", ROWS):
        topics.fit(store, terms=words.words)
    stages.correct(topics.n_passes_)
    with stages.stage("Find the nearest documents", ROWS, 2):
        chosen = steps.choose_documents(store, topics, sizes.n_documents, seed=seed)
    with stages.stage("Read the documents that are shown", TEXT):
        found.documents = steps.read_texts(words, topics, *chosen, text)
    found.topics = steps.describe_topics(topics, found.documents)
