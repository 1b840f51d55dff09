"""One call from text to a page: the steps, and the page that they leave."""

import dataclasses
import html
import tempfile
import time
import webbrowser
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import fsspec

from dspectral.exploring import steps
from dspectral.exploring.findings import Classes, Directions, Documents, Vocabulary, WordSpace
from dspectral.exploring.frequent_words import FrequentWords, count_filled
from dspectral.exploring.numbers import scaled_bytes, scaled_seconds
from dspectral.exploring.page import write_page
from dspectral.exploring.sizes import Sizes, least_count
from dspectral.exploring.stages import Announce, Stage, Stages
from dspectral.inputs.parameters import check_integer
from dspectral.store.build import BLOCK_BYTES
from dspectral.store.corpus_build import build_corpus
from dspectral.store.counts import CountStore

TEXT, TOKENS, ROWS = "text", "tokens", "documents' words"
LEAST_CLUSTERS = 2


@dataclass
class Exploration:
    """What :func:`explore` found in a text, as a page to look at.

    Attributes
    ----------
    name : str
        Title of the page, the name of the first source; set it to another before the page is written.
    size : dict
        ``documents``, ``sentences``, ``tokens``, ``types`` and ``bytes`` of the text; bytes are None where a source
        does not say its size.
    settings : dict
        Settings with which it was made, sizes after the rule for short texts among them.
    vocabulary : Vocabulary
        Frequent words.
    directions : Directions or None
        Latent directions, if the text has enough documents.
    documents : Documents or None
        Documents that are shown.
    space : WordSpace or None
        Nearest words and their map.
    classes : Classes or None
        Brown classes.
    missing : dict of str to str
        Why a part is None, by its name.
    stages : list of Stage
        What was done, and how long it took.
    seconds : float
        Wall-clock time of all.
    peak_memory_bytes : int
        Largest memory of this process since it started (0 where the system does not say), or what the caller has
        measured.
    """

    name: str
    size: dict[str, int | None]
    settings: dict[str, Any]
    vocabulary: Vocabulary
    directions: Directions | None = None
    documents: Documents | None = None
    space: WordSpace | None = None
    classes: Classes | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    stages: list[Stage] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def __repr__(self) -> str:
        return f"Exploration({self.name!r}: {self.size['documents']} documents, {self.size['tokens']} words)"

    def sentence(self) -> str:
        """Return in a sentence what the text is and what it took.

        Returns
        -------
        str
            The first line of the page.
        """
        size = self.size
        stored = "" if size["bytes"] is None else f" ({scaled_bytes(size['bytes'])} as stored)"
        texts, tokens, rows = (_passes(self.stages, reads) for reads in (TEXT, TOKENS, ROWS))
        memory = (
            f" and at most {scaled_bytes(self.peak_memory_bytes)} of memory" if self.peak_memory_bytes else ""
        )
        return (
            f"{size['documents']:,} documents with {size['tokens']:,} words, {size['types']:,} of them different"
            f"{stored}: read {texts} times as text, {tokens} times as numbered words and {rows} times as counts, in "
            f"{scaled_seconds(self.seconds)}{memory}."
        )

    def certified(self) -> str:
        """Return in a sentence what the spectrum holds, and what its certificate says."""
        directions = cast("Directions", self.directions)
        share = 100 * float((directions.singular_values**2).sum()) / directions.energy
        bound = 100 * directions.certificate.relative
        return (
            f"{len(directions.singular_values)} directions hold {share:.1f} % of the energy (the sum of all squared "
            f"weights). Each bar is from below; the certificate, computed from the same passes, says that none is "
            f"more than {bound:.1f} % of the energy too low. The bound is wide where a spectrum is flat, as that of "
            "short documents is."
        )

    def first_word(self) -> int:
        """Return the number of the word that the page shows first: the most telling one on the map, or 1."""
        listed = 0 if self.space is None else len(self.space.points) or len(self.space.near)
        return next((i for i in self.vocabulary.telling.tolist() if i <= listed), min(1, listed))

    def html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            HTML that needs no other file and asks nothing of the network.
        """
        return write_page(self)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page.

        Parameters
        ----------
        path : str or path
            File to write, ``explore.html`` for instance.

        Returns
        -------
        Path
            The file.
        """
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def show(self) -> Path:
        """Write the page to a temporary file and open it in the web browser.

        Returns
        -------
        Path
            The file, which stays.
        """
        path = self.save(Path(tempfile.mkdtemp(prefix="dspectral-explore-")) / "explore.html")
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that its style and the notebook's leave each other alone."""
        frame = "width:100%;height:80vh;min-height:480px;border:1px solid #8884"
        return (
            f'<iframe title="dspectral explore" style="{frame}" srcdoc="{html.escape(self.html())}"></iframe>'
        )


def explore(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    texts: Iterable[str] | None = None,
    unit: str | None = None,
    field: str | None = None,
    sizes: Sizes | None = None,
    min_count: int | None = None,
    seed: int = 0,
    block_bytes: int = BLOCK_BYTES,
    errors: str = "strict",
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
        Name of the record's field that holds the text.
    sizes : Sizes, optional
        Largest sizes of what the page shows; short texts get less of it.
    min_count : int, optional
        Fewest times that a word must occur to have a vector and a class; by default 1 to 10, rising with the text.
    seed : int, default=0
        Seed of everything random. The same text, sizes and seed give the same page but for times.
    block_bytes : int, default=16777216
        Bytes of text behind a block; a task holds about ten times that.
    errors : {"strict", "replace"}, default="strict"
        Treatment of bytes that are not UTF-8.
    scratch : str or path, optional
        Folder for intermediate results, which every worker of a cluster must see; they are removed. By default a
        temporary folder.
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
        If there is no word at all, or neither or both of sources and texts are given, or a source cannot be read.
    FileNotFoundError
        If a source is missing.

    Notes
    -----
    Out of core: a task holds a block, and this process the vocabulary, some numbers for each of
    ``sizes.n_words`` words, their neighbor counts (which go to scratch where they outgrow Dask's
    ``dspectral.memory-limit``), and some thousand beginnings of documents.

    Examples
    --------
    >>> found = explore(texts=["the cat sat on the mat", "the dog sat", "a cat and a dog"])
    >>> found
    Exploration('3 texts': 3 documents, 14 words)
    >>> found.missing["directions"]
    'there are 3 documents with words, of which 0 are in several documents but not in most: a direction needs 4 of each'
    """
    sizes = Sizes() if sizes is None else sizes
    sizes.check()
    seed = check_integer("seed", seed, at_least=0)
    stages, n_texts, start = Stages(stage), 0, time.perf_counter()
    with ExitStack() as stack:
        folder = _folder(stack, scratch)
        paths = [fspath(s) for s in ([sources] if isinstance(sources, str | PathLike) else sources)]
        if bool(paths) == (texts is not None):
            raise ValueError("give either sources, paths of text files, or texts, an iterable of strings")
        if texts is not None:
            with stages.stage("Write the texts to scratch", "memory"):
                paths, n_texts = _written(texts, folder)
        kind: dict[str, Any] = {
            key: value for key, value in (("unit", unit), ("field", field)) if value is not None
        }
        with stages.stage("Count and number the words", TEXT, 2):
            corpus = build_corpus(
                paths,
                f"{folder}/corpus.zarr",
                min_count=1,
                lowercase=True,
                tokens="words",
                block_bytes=block_bytes,
                errors=errors,
                source_options=source_options,
                **kind,
            )
        least = min_count or least_count(corpus.n_tokens)
        words = FrequentWords.of(corpus, min_count=least, n_words=sizes.n_words)
        if not words.n_tokens:
            raise ValueError(f"no word at all in {'the texts' if n_texts else ', '.join(paths)}")
        found = _explored(words, folder, sizes, seed, stages, source_options)
    found.name = _title(paths) if texts is None else f"{n_texts:,} texts"
    found.settings |= {"min_count": least, "seed": seed, "block_bytes": block_bytes, "errors": errors, **kind}
    found.stages, found.seconds = stages.finished, time.perf_counter() - start
    found.peak_memory_bytes = _peak_memory_bytes()
    return found


def _explored(
    words: FrequentWords,
    folder: str,
    sizes: Sizes,
    seed: int,
    stages: Stages,
    source_options: dict[str, Any] | None,
) -> Exploration:
    """Do everything that follows the count of words."""
    with stages.stage("Count documents and sentences", TOKENS):
        n_documents, n_sentences = count_filled(words)
    with stages.stage("Count the words of each document", TOKENS):
        store = steps.count_documents(words, f"{folder}/documents.zarr")
    sizes = sizes.reduced(n_documents=n_documents, n_words=len(words.words) - 1)
    size = {
        "documents": n_documents,
        "sentences": n_sentences,
        "tokens": words.n_tokens,
        "types": words.n_types,
        "bytes": _n_bytes(words.corpus.provenance["sources"]),
    }
    found = Exploration("", size, {"sizes": sizes._asdict()}, steps.describe_vocabulary(words, store))
    _explore_documents(found, words, store, sizes, seed, stages, source_options)
    _explore_words(found, words, sizes, seed, stages)
    return found


def _explore_documents(
    found: Exploration,
    words: FrequentWords,
    store: CountStore,
    sizes: Sizes,
    seed: int,
    stages: Stages,
    source_options: dict[str, Any] | None,
) -> None:
    """Add directions and documents."""
    n_documents, used = found.size["documents"], steps.words_for_directions(store)
    k = min(sizes.n_components, int(used.sum()) // 4)
    if not k:
        found.missing["directions"] = (
            f"there are {n_documents} documents with words, of which {used.sum()} are in several documents but not "
            "in most: a direction needs 4 of each"
        )
        return
    with stages.stage("Find the directions of documents", ROWS):
        fitted = steps.find_directions(store, used, k, seed=seed)
    stages.correct(fitted.svd.n_passes_)
    with stages.stage("Find typical and nearest documents", ROWS, 3):
        chosen = steps.choose_documents(store, fitted.space, sizes.n_documents, seed=seed)
    with stages.stage("Read the documents that are shown", TEXT):
        found.documents = steps.read_texts(words, *chosen, source_options)
    found.directions = steps.describe_directions(fitted, words.words, chosen[0], found.documents)


def _explore_words(found: Exploration, words: FrequentWords, sizes: Sizes, seed: int, stages: Stages) -> None:
    """Add word vectors, their map, and classes."""
    if sizes.n_clusters < LEAST_CLUSTERS:
        n_words, least = len(words.words) - 1, 8 * LEAST_CLUSTERS
        found.missing["words"] = f"there are {n_words} words, and vectors and classes need at least {least}"
        return
    if not words.has_neighbors():
        found.missing["words"] = "no word stands beside another one: every sentence is one word"
        return
    with stages.stage("Learn the vectors of words", TOKENS):
        embedding = steps.learn_vectors(words, sizes.n_dimensions, seed=seed)
    with stages.stage("Find the nearest words and lay out the map", "vectors"):
        found.space = steps.place_words(embedding, sizes, seed=seed)
    with stages.stage("Find the classes of words", TOKENS):
        found.classes = steps.find_classes(words, sizes.n_clusters, seed=seed)


def _folder(stack: ExitStack, scratch: str | PathLike[str] | None) -> str:
    """Return a new folder that is gone when the stack is left."""
    if scratch is None:
        return stack.enter_context(tempfile.TemporaryDirectory(prefix="dspectral-explore-"))
    url = f"{fspath(scratch).rstrip('/')}/explore-{uuid4().hex}"
    system, path = fsspec.url_to_fs(url)
    system.makedirs(path, exist_ok=True)
    stack.callback(system.rm, path, recursive=True)
    return url


def _written(texts: Iterable[str], folder: str) -> tuple[list[str], int]:
    """Write texts as lines, whatever they are iterated from; return the file and their number."""
    if isinstance(texts, str | bytes):
        raise TypeError(f"texts is {texts!r:.60}, but it must be an iterable of strings")
    path, n, n_filled = f"{folder}/texts.txt", 0, 0
    with fsspec.open(path, "wt", encoding="utf-8", newline="\n") as file:
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"text {n} is {text!r:.60}, but texts must be strings")
            line = " ".join(text.split())
            file.write(line + "\n")
            n, n_filled = n + 1, n_filled + bool(line)
    if not n_filled:
        raise ValueError(f"no word at all in the texts, of which there are {n}")
    return [path], n


def _title(paths: list[str]) -> str:
    names = [path.rstrip("/").rpartition("/")[2] for path in paths]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _n_bytes(spans: list[dict[str, Any]]) -> int | None:
    """Return the size of the sources as they are stored; None where one does not say it."""
    sizes = [span["n_bytes"] for span in spans]
    return None if None in sizes else sum(sizes)


def _peak_memory_bytes() -> int:
    """Return the largest resident memory of this process; 0 where the system keeps no record in /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _passes(stages: list[Stage], reads: str) -> int:
    return sum(stage.passes for stage in stages if stage.reads == reads)
