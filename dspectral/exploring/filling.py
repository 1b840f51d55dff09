"""From counted words to findings, stage by stage."""

from typing import Any

from dspectral.exploring import steps
from dspectral.exploring.findings import ROWS, TEXT, TOKENS, Findings, Sizes, Stages
from dspectral.exploring.frequent_words import FrequentWords, count_filled
from dspectral.store.counts import CountStore
from dspectral.store.from_text.planned_text import PlannedText

LEAST_CLUSTERS = 2


def fill(
    found: Findings,
    words: FrequentWords,
    folder: str,
    sizes: Sizes,
    stages: Stages,
    *,
    seed: int,
    text: PlannedText,
) -> None:
    """Do everything that follows the count of words, and put it into the findings."""
    with stages.stage("Count documents and sentences", TOKENS):
        n_documents, n_sentences = count_filled(words)
    with stages.stage("Count the words of each document", TOKENS):
        store = steps.count_documents(words, f"{folder}/documents.zarr")
    # Small text has no room for the sizes that were asked for: from here on they are those that it has.
    sizes = sizes.reduced(n_documents=n_documents, n_words=len(words.words) - 1)
    size = {
        "documents": n_documents,
        "sentences": n_sentences,
        "tokens": words.n_tokens,
        "types": words.n_types,
        "bytes": _n_bytes(words.corpus.provenance["sources"]),
    }
    found.size, found.settings = size, {"sizes": sizes._asdict()}
    found.vocabulary = steps.describe_vocabulary(words, store)
    _explore_documents(found, words, store, sizes, seed, stages, text)
    _explore_words(found, words, sizes, seed, stages)


def _explore_documents(
    found: Findings,
    words: FrequentWords,
    store: CountStore,
    sizes: Sizes,
    seed: int,
    stages: Stages,
    text: PlannedText,
) -> None:
    """Add directions and documents."""
    n_documents, used = found.size["documents"], steps.words_for_directions(store)
    # A fourth of the words at most, or directions would be single words.
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
        found.documents = steps.read_texts(words, *chosen, text)
    found.directions = steps.describe_directions(fitted, words.words, chosen[0], found.documents)


def _explore_words(found: Findings, words: FrequentWords, sizes: Sizes, seed: int, stages: Stages) -> None:
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


def _n_bytes(spans: list[dict[str, Any]]) -> int | None:
    """Return the size of the sources as they are stored; None where one does not say it."""
    sizes = [span["n_bytes"] for span in spans]
    return None if None in sizes else sum(sizes)
