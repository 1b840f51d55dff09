"""Every public function and method that is handed a store, a corpus, coordinates or a model that somebody else made."""

import inspect
import json
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dspectral
from dspectral import (
    NgramHashing,
    SketchedPCA,
    Texts,
    Topics,
    TruncatedSVD,
    VocabularySettings,
    build_corpus,
    build_store,
    load,
    open_coordinates,
    open_corpus,
    open_store,
    save,
)
from tests.contracts import CASES

LINES = [f"the red kite rises over tree {i % 5}" if i % 2 else f"a fox runs {i % 7} far" for i in range(40)]
TAGGED = [[(word, "N") for word in line.split()] for line in LINES]
N_WORDS = len({word for line in LINES for word in line.split()})
HASHED: dict[str, Any] = {
    "sources": [{"body": line, "key": f"k{i}"} for i, line in enumerate(LINES)],
    "field": "body",
    "id_field": "key",
    "keep_texts": True,
    "keep_terms": 50,
    "block_bytes": 300,
}
NUMBERS = np.random.default_rng(4).random((20, 5))
Use = tuple[str, Callable[[], Any]]

ARGUMENTS: dict[str, Any] = {
    "rows": [0, 1],
    "kind": "texts",
    "weighting": dspectral.Weighting("count", None, None, None),
    "texts": LINES[:3],
    "term": "kite",
    "n_documents": 40,
    "chunk": 0,
    "text": "the kite",
    "word": "kite",
    "words": ["kite", "fox"],
    "sentences": [line.split() for line in LINES[:4]],
    "observations": [line.split() for line in LINES[:4]],
    "tree": None,
    "positive": ["kite"],
    "a": "kite",
    "b": "fox",
    "c": "red",
    "input": LINES[:2],
    "vectors": np.zeros((2, 3)),
    "masks": None,
    "levels": [1],
    "target": "kite",
    "deep": False,
    "n_clusters": 2,
    "pairs": sparse.csr_array(np.eye(3)),
    "word_counts": np.ones(3, dtype=np.int64),
    "corpus": [line.split() for line in LINES[:4]],
}
"""What a method without a default is given, by the name of its argument; X and y are those of the class's case."""
ENDS = {"write", "begin"}
"""Methods of coordinates that write chunks: no reader calls them."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "nearest": lambda given, place: [
        dspectral.nearest(TruncatedSVD(2).fit(given.tfidf()), given, "the kite"),
        dspectral.nearest(TruncatedSVD(2).fit(given[:9].tfidf()), given[:9], "the kite"),
    ],
    "write_coordinates": lambda given, place: dspectral.write_coordinates(
        TruncatedSVD(2).fit(given.tfidf()), given, f"{place}-out.zarr"
    ),
    "write_counts": lambda given, place: dspectral.write_counts(given.counts, f"{place}-out", signed=True),
    "build_store": lambda given, place: build_store(**settings_of(given), store=place, append=True),
    "top_terms": lambda given, place: dspectral.top_terms(TruncatedSVD(2).fit(given), terms=given),
    "plan": lambda given, place: dspectral.plan(TruncatedSVD(2).fit, given),
    "summarize": lambda given, place: dspectral.summarize(
        given, summarize_block=dspectral.decomposition.Moments.from_block
    ),
    "write_anndata": lambda given, place: dspectral.io.write_anndata(given, f"{place}-out-a.zarr"),
    "write_labeled_text": lambda given, place: dspectral.io.write_labeled_text(
        given, f"{place}-out.txt", np.ones((given.n_rows, 1), dtype=int)
    ),
    "discard_unfinished": lambda given, place: dspectral.store.discard_unfinished(place),
}
"""Functions that take a store."""
OF_CORPUS: dict[str, Callable[..., Any]] = {
    "build_corpus": lambda given, place: build_corpus(
        Texts(LINES), f"{place}-out", tokens=given.provenance["corpus"]["tokens"]
    ),
    "WordEmbedding": lambda given, place: dspectral.WordEmbedding(2).fit(given),
    "SpectralBrownClustering": lambda given, place: dspectral.SpectralBrownClustering(2).fit(given),
}
OF_COORDINATES: dict[str, Callable[..., Any]] = {
    "nearest": lambda given, place: [
        dspectral.nearest(None, given, 0),
        dspectral.nearest(TruncatedSVD(2).fit(np.eye(N_WORDS)), given, "the kite"),
    ],
}
OF_MODELS: dict[str, Callable[..., Any]] = {
    "save": lambda given, place: save(given, f"{place}-out"),
    "write_embedding": lambda given, place: dspectral.io.write_embedding(f"{place}-a.zarr", given, np.eye(3)),
    "top_terms": lambda given, place: dspectral.top_terms(given),
}
OPENERS = {"open_store", "open_corpus", "open_coordinates", "load"}
LEFT_OUT = {
    # Nothing in them is opened: texts, arrays, files of other formats, settings, pictures and programs.
    "ClusterError", "term_similarity", "estimate_memory", "embedder", "write_word2vec", "write_brown_paths",
    "EmbeddingRecipe", "AnchorRecipe", "IntentRecipe", "LocalRecipe", "MultiLabelRecipe", "RunPlan",
    "RefinementRecipe", "SentenceRecipe", "TextFiles", "Texts", "VocabularySettings", "Weighting", "LsiModel",
    "dashboard", "datasets", "decomposition", "engine", "io", "metrics", "pp", "store", "text", "watch",
    "explore", "clear_checkpoints", "checkpoints", "progress", "show_dashboard", "read_word2vec",
    "plot_brown_tree", "plot_certificate", "plot_documents", "plot_merge_tree", "plot_spectrum", "plot_words",
    # dspectral.io and dspectral.store
    "LabeledText", "TaggedSentences", "build_labeled_store", "read_brown_paths", "read_conll",
    "read_labeled_records", "read_newsgroups", "read_reuters", "StoreError", "redact_urls",
    # Classes whose objects are opened: their members are gone through one by one.
    "AnnDataCounts", "Corpus", "CountStore", "Vocabulary",
}  # fmt: skip


def public_names() -> set[str]:
    """Return the names of the packages that users import from."""
    packages = ("dspectral", "dspectral.io", "dspectral.store")
    return {name for package in packages for name in import_module(package).__all__}


def doors() -> set[str]:
    """Return the names that the uses below go through."""
    return {*FUNCTIONS, *OF_CORPUS, *OF_COORDINATES, *OF_MODELS, *OPENERS, *CASES}


def settings_of(store: Any) -> dict[str, Any]:
    if store.hashing is not None:
        return {**HASHED, "hashing": store.hashing}
    settings = store.provenance["vocabulary"]
    known = VocabularySettings(**{**settings, "ngram_range": tuple(settings["ngram_range"])})
    return {"sources": Texts(LINES), "vocabulary": known}


def members(given: Any, **arguments: Any) -> Iterator[Use]:
    """Yield a use of each public property and method of an object."""
    for name in dir(type(given)):
        if name.startswith("_") or name in ENDS or is_made(given, name):
            continue
        yield name, lambda name=name: use_member(given, name, arguments)


def is_made(given: Any, name: str) -> bool:
    """Report whether a name makes an object of something else."""
    return isinstance(inspect.getattr_static(given, name), classmethod)


def use_member(given: Any, name: str, arguments: dict[str, Any]) -> Any:
    found = getattr(given, name)
    if not inspect.ismethod(found):
        return found.compute() if hasattr(found, "compute") else found
    return found(**required(found, arguments))


def required(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a function must be given; an argument that nobody knows is an error of the tests."""
    needed = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY, one.POSITIONAL_ONLY)
        and (one.default is one.empty or (one.name in ("y", "classes") and one.name in arguments))
    ]
    known = {**ARGUMENTS, **arguments}
    if missing := [name for name in needed if name not in known]:
        raise NotImplementedError(f"{function.__qualname__} needs {missing}: say in tests/trust/doors.py what they are")
    return {name: known[name] for name in needed}


def functions(table: dict[str, Callable[..., Any]], given: Any, place: str) -> Iterator[Use]:
    for name, function in table.items():
        yield name, lambda function=function: function(given, place)


def use_store(place: str) -> Iterator[Use]:
    store = open_store(place)
    yield from members(store)
    yield from members(store[2:5])
    for name in ("vocabulary", "kept_terms"):
        if (part := getattr(store, name, None)) is not None:
            yield from members(part)
    labels = np.arange(store.n_rows) % 2
    for name, case in CASES.items():
        if case.kind == "rows" and name != "LocalLSI":  # seconds a fit
            yield name, lambda case=case: case.make().fit(store, labels)
    yield "Topics.transform", lambda: Topics(2, min_df=1, max_df=1.0).fit(store).transform(["the kite"])
    yield "NgramHashing.transform", lambda: NgramHashing(**store.hashing._asdict()).transform(LINES)
    yield from functions(FUNCTIONS, store, place)


def use_corpus(place: str) -> Iterator[Use]:
    corpus = open_corpus(place)
    yield from members(corpus)
    yield "sentences", lambda: [corpus.sentences.read(block) for block in corpus.blocks]
    yield from functions(OF_CORPUS, corpus, place)


def use_coordinates(place: str) -> Iterator[Use]:
    coordinates = open_coordinates(place)
    yield from members(coordinates)
    yield from functions(OF_COORDINATES, coordinates, place)


def use_model(place: str) -> Iterator[Use]:
    model = load(place)
    case = CASES.get(type(model).__name__)
    scaled = hasattr(model, "named_steps") and "standardscaler" in model.named_steps
    X, y = (NUMBERS if scaled else LINES, None) if case is None else case.data()
    classes = None if y is None or np.ndim(y) != 1 else np.unique(y)
    yield from members(model, X=X, y=y, classes=classes, other=model)
    yield "fit again", lambda: model.fit(X, y)
    yield from functions(OF_MODELS, model, place)


def make_hashed(place: str) -> None:
    settings = NgramHashing(64, (1, 2), tokenizer=str.split)
    build_store(**HASHED, store=place, hashing=settings)


def make_vocabulary(place: str) -> None:
    settings = VocabularySettings(tokenizer=str.split)
    build_store(Texts(LINES), place, vocabulary=settings, block_bytes=300)
    build_store(Texts(LINES), place, vocabulary=settings, append=True)


def make_anndata(place: str) -> None:
    dspectral.io.write_anndata(dspectral.write_counts(sparse.csr_array(np.eye(40)), f"{place}-counts"), place)


def make_coordinates(place: str) -> None:
    make_vocabulary(f"{place}-counts")
    store = open_store(f"{place}-counts")
    TruncatedSVD(2).fit(store.tfidf()).transform(store.tfidf(), out=place)


def make_texts(place: str) -> None:
    steps = [NgramHashing(64, tokenizer=str.split), dspectral.TfidfWeighting(), TruncatedSVD(2)]
    save(make_pipeline(make_pipeline(*steps), SketchedPCA(2)).fit(LINES), place)


class Payload:
    """A pickle that makes a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def make_scaled(place: str) -> None:
    """Save a pipeline, and leave a cache of joblib beside it in which each result is a payload."""
    model = make_pipeline(StandardScaler(), SketchedPCA(2, random_state=0), memory=f"{place}-cache")
    model.fit(NUMBERS)
    for output in Path(f"{place}-cache").rglob("output.pkl"):
        joblib.dump(Payload(str(Path(place).with_name("executed"))), output)
    model.memory = None
    save(model, place)


def make_topics(place: str) -> None:
    make_vocabulary(f"{place}-counts")
    save(Topics(2, min_df=1, max_df=1.0).fit(open_store(f"{place}-counts")), place)


def make_model(name: str) -> Callable[[str], None]:
    def make(place: str) -> None:
        X, y = CASES[name].data()
        model = CASES[name].make()
        save(model.fit(X) if y is None else model.fit(X, y), place)

    return make


KINDS: dict[str, tuple[Callable[[str], None], Callable[[str], Iterator[Use]]]] = {
    "hashed": (make_hashed, use_store),
    "vocabulary": (make_vocabulary, use_store),
    "anndata.zarr": (make_anndata, use_store),
    "corpus": (lambda place: build_corpus(Texts(LINES), place, block_bytes=300) and None, use_corpus),
    "coordinates.zarr": (make_coordinates, use_coordinates),
    "coordinates.parquet": (make_coordinates, use_coordinates),
    "pipeline": (make_texts, use_model),
    "scaled": (make_scaled, use_model),
    "topics": (make_topics, use_model),
    **{name: (make_model(name), use_model) for name in CASES},
}


def metadata_of(folder: Path) -> dict[str, Any]:
    """Return the metadata of a folder by the names of their files."""
    found = {str(file.relative_to(folder)): json.loads(file.read_text()) for file in sorted(folder.rglob("zarr.json"))}
    for file in sorted(folder.rglob("*.parquet")):
        from pyarrow import parquet  # noqa: PLC0415

        schema = parquet.read_schema(file)
        found[str(file.relative_to(folder))] = json.loads(schema.metadata[b"dspectral-coordinates"])
    return found


def write_metadata(folder: Path, name: str, content: Any) -> None:
    if not name.endswith(".parquet"):
        (folder / name).write_text(json.dumps(content))
        return
    from pyarrow import parquet  # noqa: PLC0415

    table = parquet.read_table(folder / name)
    metadata = {b"dspectral-coordinates": json.dumps(content).encode()}
    parquet.write_table(table.replace_schema_metadata(metadata), folder / name)
