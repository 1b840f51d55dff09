"""Show that two versions of the code give the same bits: every estimator, store, data set and report.

``write FILE`` fits everything on small seeded data and writes a digest of each result; ``compare A B`` prints the
digests that differ; ``against REVISION`` does both for a revision of git and for the present tree.

A digest is of dtypes, shapes, bytes and texts, never of names of classes or modules: code that is moved or renamed
keeps its digests. Parameters, values and attributes whose names change are listed in the tables below.
"""

import argparse
import hashlib
import inspect
import io
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stdout
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias, get_args
from unittest.mock import patch

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
NAMES = {
    "min_df": ("min_df", "min_document_frequency"),
    "max_df": ("max_df", "max_document_frequency"),
    "transform": ("count_transform", "transform"),
    "polish": ("n_em_iter", "polish"),
    "refine": ("n_sweeps", "refine"),
    "sweeps": ("n_sweeps", "sweeps"),
}
"""Names that a parameter has in one version or another; the constructor or ``fit`` takes one of them."""
CONSTANTS = {
    "VectorQuantizer.batch_size": ("dspectral.methods.hmm.quantizer", "BATCH_FRAMES"),
    "VectorQuantizer.n_init": ("dspectral.methods.hmm.quantizer", "N_KMEANS_STARTS"),
    "AnchorHMM.n_clusters": ("dspectral.methods.hmm.anchor.points", "N_CLUSTERS"),
    "HybridLSI.solver": ("dspectral.methods.lsi.hybrid", "SOLVER"),
    "HybridLSI.n_passes": ("dspectral.methods.lsi.hybrid", "N_PASSES"),
    "IntentClassifier.n_folds": ("dspectral.methods.sentences.intent", "N_FOLDS"),
    "SentenceRepresentation.solver": ("dspectral.methods.sentences.representation", "SOLVER"),
    "TreePCA.first_level": ("dspectral.methods.tmpca.levels", "PAIR_ARITY"),
}
"""Constants of a module that were a parameter of an estimator; they are set for its fit where nothing takes it."""
VALUES: dict[str, Any] = {"diagonalise": "diagonalize", "pairs": 2, "vectors": 0}
"""Another spelling of a parameter's value, used where the annotation does not know the first, or by a constant."""
CONFIGURED = {"memory_limit": "dspectral.memory-limit", "fan_in": "dspectral.fan-in"}
"""Parameters that became entries of Dask's configuration, set while the estimator is fitted."""
ATTRIBUTES: dict[str, str] = {"spelling_classes_": "classes_"}
"""From another name of a fitted attribute to the name that its digest has."""
NOT_RESULTS = ("seconds", "memory", "bytes")
"""Words in the metrics of a report that depend on the machine."""
Digests: TypeAlias = dict[str, str]
Case: TypeAlias = tuple[str, Digests]


# ------------------------------------------------------------------------------------------------ digests


def digest(value: Any) -> str:
    """Return the SHA-256 of a value, however it is nested."""
    hashed = hashlib.sha256()
    _feed(hashed.update, value)
    return hashed.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    """Hand the bytes of a value to a hash, each part with its kind and size."""
    if isinstance(value, np.generic | np.dtype):
        value = value.item() if isinstance(value, np.generic) else value.str
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        text = repr(value).encode()
        update(f"{type(value).__name__} {len(text)} ".encode() + text)
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        update(f"array {value.dtype.str} {value.shape} ".encode() + value.tobytes())
    else:
        parts = [part for part in _parts(value) if not _is_function(part)]
        update(f"parts {len(parts)} ".encode())
        for part in parts:
            _feed(update, part)


def _parts(value: Any) -> list[Any]:
    """Return what a value that is not a single one is made of, in an order that does not depend on names."""
    if isinstance(value, np.ndarray | da.Array) or sparse.issparse(value):
        return _parts_of_array(value)
    if _is_stream(value):
        return [value.read(item) for item in value.items]
    if isinstance(value, Mapping):
        keys = sorted(value, key=str)
        return [*keys, *(value[key] for key in keys)]
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value)]
    return list(_fitted_attributes(value).values())


def _parts_of_array(array: Any) -> list[Any]:
    """Return the parts of a Dask array, an array of objects or a sparse matrix."""
    if isinstance(array, np.ndarray):
        return list(array.ravel().tolist())
    if isinstance(array, da.Array):
        return [array.compute()]
    rows = array.tocsr()
    return [rows.shape, rows.data, rows.indices, rows.indptr]


def _is_function(value: Any) -> bool:
    """Tell whether a value is a function or a class, which has no digest."""
    return callable(value) and not _is_stream(value)


def _is_stream(value: Any) -> bool:
    """Tell whether a value is a stream of blocks, each of which is read from an item."""
    return not isinstance(value, Mapping) and hasattr(value, "read") and hasattr(value, "items")


def _fitted_attributes(model: Any) -> dict[str, Any]:
    """Return the attributes of a fitted estimator in alphabetical order."""
    found = {
        ATTRIBUTES.get(name, name): value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }
    if not found:
        raise TypeError(f"there is no rule for the digest of a {type(model).__name__}")
    return dict(sorted(found.items()))


def bits(model: Any, **outputs: Any) -> Digests:
    """Return the digest of each fitted attribute of an estimator, and of what it was asked for."""
    found = {name: digest(value) for name, value in _fitted_attributes(model).items()}
    return found | {f"{name}()": digest(value) for name, value in outputs.items()}


# ------------------------------------------------------------------------------------------- versions


def public(name: str) -> Any:
    """Return a public name of the package that is first on the path."""
    return getattr(import_module("dspectral"), name)


def dataset(name: str) -> Callable[..., Any]:
    """Return a generator of data, whichever module of ``datasets`` or of the programs holds it."""
    package = import_module("dspectral.datasets")
    places = [
        package,
        *(import_module(f"{package.__name__}.{one.name}") for one in iter_modules(package.__path__)),
    ]
    known = (getattr(place, name) for place in places if callable(getattr(place, name, None)))
    return next(known, None) or getattr(import_module("workflows._parts.drawn_sequences"), name)  # type: ignore[no-any-return]


def made(estimator: Any, **parameters: Any) -> tuple[Any, dict[str, Any], list[Any]]:
    """Make an estimator, with each parameter under the name that this version has; or as patches of constants."""
    constants = []
    own: dict[str, Any] = {}
    for_fit: dict[str, Any] = {}
    for_recipe: dict[str, Any] = {}
    recipe = _recipe_of(estimator)
    places = (
        (inspect.signature(estimator).parameters, own),
        (inspect.signature(estimator.fit).parameters, for_fit),
        (inspect.signature(recipe).parameters if recipe else {}, for_recipe),
    )
    for name, value in parameters.items():
        options = NAMES.get(name, (name,))
        taken = [(known[option], given) for known, given in places for option in options if option in known]
        place = CONSTANTS.get(f"{estimator.__name__}.{name}")
        if not taken and place:
            spelled = VALUES.get(value, value) if isinstance(value, str) else value
            constants.append(patch.object(import_module(place[0]), place[1], spelled))
            continue
        if not taken:
            raise TypeError(f"{estimator.__name__} takes none of {', '.join(options)}")
        parameter, given = taken[0]
        given[parameter.name] = _spelled(value, parameter)
    if for_recipe and recipe is not None:
        own["recipe"] = recipe(**for_recipe)
    return estimator(**own), for_fit, constants


def _recipe_of(estimator: Any) -> Any:
    """Return the class of the argument ``recipe`` of a constructor, or None where there is none."""
    parameter = inspect.signature(estimator).parameters.get("recipe")
    options = () if parameter is None else (parameter.annotation, *get_args(parameter.annotation))
    return next((option for option in options if hasattr(option, "_fields")), None)


def _spelled(value: Any, parameter: inspect.Parameter) -> Any:
    """Return a value in the spelling that a parameter's annotation knows."""
    other = VALUES.get(value) if isinstance(value, str) else None
    return other if other in get_args(parameter.annotation) and other is not None else value


def fitted(name: str, X: Any, y: Any = None, **parameters: Any) -> Any:
    """Return an estimator of a public name, fitted to data."""
    known = inspect.signature(public(name)).parameters
    configured = {key: parameters.pop(old) for old, key in CONFIGURED.items() if {old} & parameters.keys() - known}
    model, for_fit, constants = made(public(name), **parameters)
    with dask.config.set(configured), ExitStack() as stack:
        for constant in constants:
            stack.enter_context(constant)
        return model.fit(X, **for_fit) if y is None else model.fit(X, y, **for_fit)


# ----------------------------------------------------------------------------------------------- data


class Counted(NamedTuple):
    """Counts of words (n, d) in documents of four classes (n,), and ones where a document has several (n, 4)."""

    rows: sparse.csr_array
    classes: NDArray[np.int64]
    several: sparse.csr_array


@cache
def counted(n: int = 160, d: int = 48) -> Counted:
    """Draw documents whose class makes every fourth word more frequent."""
    rng = np.random.default_rng(11)
    classes = rng.integers(4, size=n)
    rates = 0.25 + 1.5 * (np.arange(d) % 4 == classes[:, None]) / np.sqrt(1.0 + np.arange(d) // 4)
    several = (rng.random((n, 4)) < 0.25) | (np.arange(4) == classes[:, None])
    rows = sparse.csr_array(rng.poisson(rates).astype(np.float64))
    return Counted(rows, classes, sparse.csr_array(several.astype(np.float64)))


@cache
def sentences(n: int = 300) -> list[list[str]]:
    """Draw sentences of words in four classes that follow each other, each with an ending of its own."""
    rng = np.random.default_rng(7)
    stems = ["".join(rng.choice(list("abdeginorst"), 4)) for _ in range(40)]
    words = [[stem + ending for stem in stems] for ending in ("", "ing", "ed", "ly")]
    steps = np.array([[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0.2, 0.1, 0.1, 0.6], [0.7, 0.1, 0.1, 0.1]])
    frequency = 1.0 / np.arange(1.0, len(stems) + 1.0)
    frequency /= frequency.sum()
    drawn = []
    for _ in range(n):
        state, sentence = int(rng.integers(4)), []
        for _ in range(int(rng.integers(1, 12))):
            sentence.append(words[state][rng.choice(len(stems), p=frequency)])
            state = int(rng.choice(4, p=steps[state]))
        drawn.append(sentence)
    return drawn


@cache
def vectors_of_words() -> tuple[list[str], NDArray[np.float64]]:
    """Draw a vector for each word of the sentences."""
    words = sorted({word for sentence in sentences() for word in sentence})
    return words, np.random.default_rng(5).standard_normal((len(words), 5))


def lazily(X: Any, block_rows: int = 37) -> da.Array:
    """Return rows as a Dask array of dense blocks, or of CSR blocks where they are sparse."""
    if not sparse.issparse(X):
        return da.from_array(X, chunks=(block_rows, *X.shape[1:]))
    dense = da.from_array(X.toarray(), chunks=(block_rows, X.shape[1]))
    return dense.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=X.dtype))


def text_file(folder: Path) -> str:
    """Write the sentences as lines of a text file, and return its path."""
    path = folder / "text.txt"
    if not path.exists():
        path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences()), encoding="utf-8")
    return str(path)


def corpus_in(folder: Path, name: str) -> Any:
    """Build a corpus of many blocks of the sentences."""
    return public("build_corpus")(text_file(folder), str(folder / name), block_bytes=2000)


# ---------------------------------------------------------------------------------------------- cases


def decompositions(folder: Path) -> Iterator[Case]:
    """Fit SketchedPCA and TruncatedSVD by every solver, in memory, from Dask arrays and from a store."""
    rows = counted().rows
    settings: dict[str, dict[str, Any]] = {
        "auto": {},
        "gram": {"solver": "gram"},
        "directions": {"solver": "frequent_directions"},
        "median": {"solver": "median_frequent_directions", "sketch_size": 14},
        "krylov": {"solver": "krylov", "n_passes": 3, "random_state": 3},
        "nystrom": {"solver": "nystrom", "sketch_size": 20},
    }
    store = public("write_counts")(rows, str(folder / "decomposed"), block_rows=50)
    kinds = {
        "sparse": rows,
        "single": rows.toarray().astype(np.float32),
        "lazy": lazily(rows),
        "store": store,
    }
    for how, asked in settings.items():
        for kind, X in kinds.items():
            pca = partial(fitted, "SketchedPCA", X, n_components=4, **asked)
            for name, model in (
                ("SketchedPCA", pca()),
                ("SketchedPCA about the origin", pca(center=False)),
                ("TruncatedSVD", fitted("TruncatedSVD", X, n_components=4, **asked)),
            ):
                yield f"{name} {how} {kind}", bits(model, transform=model.transform(X))
    wide = counted(90, 2200).rows
    for name in ("PCA", "SketchedPCA", "TruncatedSVD"):
        model = fitted(name, wide, n_components=4)
        yield f"{name} wide", bits(model, transform=model.transform(wide))
    for solver in ("gram", "frequent_directions"):
        grown = fitted("SketchedPCA", rows[:90], n_components=3, solver=solver).partial_fit(rows[90:])
        back = grown.inverse_transform(grown.transform(rows))
        yield f"SketchedPCA grown {solver}", bits(grown, inverse_transform=back)


def embeddings(folder: Path) -> Iterator[Case]:
    """Fit WordEmbedding with every scaling and kind of context, from lists and from a corpus."""
    settings: dict[str, dict[str, Any]] = {
        "cca": {},
        "ppmi": {"scaling": "ppmi", "transform": "none"},
        "reg": {"scaling": "reg", "transform": "log", "power": 0.5},
        "none": {"scaling": "none", "transform": 0.6, "n_skipped": 0},
        "list": {"context": "list", "window": 2, "distance_weighting": False},
        "hashed": {"n_contexts": 16, "min_count": 3},
        "rare": {"min_count": 2, "random_state": 4},
    }
    for how, asked in settings.items():
        model = fitted("WordEmbedding", sentences(), n_components=6, **{"window": 3, **asked})
        yield f"WordEmbedding {how}", bits(model, **_near(model))
    for limit in (1 << 30, 30_000):
        corpus = corpus_in(folder, f"embedded-{limit}")
        asked = {"window": 3, "memory_limit": limit}
        model = fitted("WordEmbedding", corpus, n_components=6, **asked)
        yield f"WordEmbedding corpus {limit}", bits(model, **_near(model))


def _near(model: Any) -> dict[str, Any]:
    """Ask a word embedding for what its vectors are for."""
    a, b, c = model.words_[1:4]
    return {
        "most_similar": model.most_similar([a, b], c),
        "analogy": [model.analogy(a, b, c, method=method, n=3) for method in ("add", "mul")],
        "vector": model.vectors_[0],
    }


def brown(folder: Path) -> Iterator[Case]:
    """Fit SpectralBrownClustering with and without exchange sweeps."""
    plain = {"transform": "none", "refine": 0, "start": "published"}
    if "start" not in inspect.signature(public("SpectralBrownClustering")).parameters:
        plain = {"transform": "none", "refine": 0, "sides": "right", "power": 0.0, "weighting": "types"}
    settings: dict[str, dict[str, Any]] = {
        "refined": {"refine": 4},
        "start": {"refine": 0, "transform": "log", "n_dimensions": 5},
        "plain": plain,
        "rare": {"min_count": 4, "transform": 0.5, "random_state": 2},
    }
    kinds = {"lists": sentences(), "corpus": corpus_in(folder, "clustered")}
    for how, asked in settings.items():
        for kind, X in kinds.items():
            model = fitted("SpectralBrownClustering", X, n_clusters=6, **{"min_count": 1, **asked})
            outputs = {
                "codes": model.codes(),
                "cut": [model.cut(n) for n in (1, 3, 6)],
                "predict": model.predict(["never seen", *model.words_[::3]]),
                "score": model.score(sentences()[:100]),
            }
            yield f"SpectralBrownClustering {how} {kind}", bits(model, **outputs)


def latent_tags(folder: Path) -> Iterator[Case]:
    """Fit AnchorHMM with every reduction, by EM and by spelling, and EMHMM."""
    of_contexts: dict[str, Any] = {"spelling": 0.0, "min_count": 4}
    anchor: dict[str, dict[str, Any]] = {
        "clusters": {**of_contexts, "n_clusters": 8, "polish": 3},
        "spelled": {"spelling": 0.5, "min_count": 6, "n_clusters": 8, "polish": 1, "decoding": "viterbi"},
    }
    em: dict[str, dict[str, Any]] = {
        "posterior": {"n_iter": 6},
        "viterbi": {"n_iter": 4, "smoothing": 0.5, "min_count": 3, "decoding": "viterbi", "random_state": 1},
    }
    kinds = {"lists": sentences(), "corpus": corpus_in(folder, "tagged")}
    new = [*sentences()[:40], [], ["never", "seening"]]
    for name, settings in (("AnchorHMM", anchor), ("EMHMM", em)):
        for how, asked in settings.items():
            for kind, X in kinds.items():
                best = {key: value for key, value in asked.items() if key != "decoding"}
                model = fitted(name, X, n_states=4, **best)
                # What "viterbi" predicts are the paths, which have a method of their own.
                states = model.decode(new)[1] if best != asked else model.predict(new)
                yield f"{name} {how} {kind}", bits(model, predict=states)
    given = fitted("AnchorHMM", sentences(), n_states=4, spelling=0.0, min_count=2, anchors=sentences()[0][:1])
    for preset in ("as_published", "as_consistent"):
        model = getattr(public("AnchorHMM"), preset)(4).fit(sentences())
        yield f"AnchorHMM {preset}", bits(model, decode=model.decode(new)[1])
    yield "AnchorHMM given", bits(given, encode=given.encode(new), predict=given.predict(new))


def refinements(_: Path) -> Iterator[Case]:
    """Fit RefinementHMM by moments, by EM and at random, from lists and from a stream; and VectorQuantizer."""
    X = [sentence for sentence in sentences() if len(sentence) > 1]
    y = [[word.endswith(("ing", "ed")) for word in sentence] for sentence in X]
    settings: dict[str, dict[str, Any]] = {
        "one": {"n_refinements": 1},
        "moments": {"n_refinements": 2, "polish": 0},
        "operators": {"n_refinements": 2, "decoding": "operators", "memory": (0.3, 0.8)},
        "polished": {"n_refinements": 3, "polish": 3, "tol": 0.0, "smoothing": 0.5},
        "random": {"n_refinements": 2, "start": "random", "polish": 4, "random_state": 3},
    }
    for how, asked in settings.items():
        model = fitted("RefinementHMM", X, y, **asked)
        shares = model.predict_proba(X[:30])
        yield f"RefinementHMM {how}", bits(model, predict=model.predict(X[:30]), predict_proba=shares)
    stream = dataset("refinement_sequences")(150, block_sequences=40, seed=2)
    model = fitted("RefinementHMM", stream, n_refinements=2, polish=2)
    yield "RefinementHMM stream", bits(model, predict=model.predict([[1, 2, 3], [], [99, 4]]))
    frames = [np.random.default_rng(i).standard_normal((30, 3)) + i % 3 for i in range(12)]
    for n_init in (1, 3):
        quantizer = fitted("VectorQuantizer", frames, n_codes=6, n_init=n_init, batch_size=64)
        yield f"VectorQuantizer {n_init}", bits(quantizer, transform=quantizer.transform(frames))


def many_labels(folder: Path) -> Iterator[Case]:
    """Fit MomentMultiLabelClassifier with both moments and both tensor methods."""
    rows, _, several = counted(400)
    settings: dict[str, dict[str, Any]] = {
        "paper": {},
        "unbiased": {"moments": "unbiased", "counts": True},
        "diagonal": {"tensor": "diagonalise", "smoothing": 0.3, "correction_rank": 0},
        "polished": {"polish": 2, "label_weight": 4.0, "correction_rank": 2},
        "seed": {"random_state": 2, "alpha": 0.5},
    }
    for how, asked in settings.items():
        model = fitted("MomentMultiLabelClassifier", rows, several, n_states=4, **asked)
        yield f"MomentMultiLabelClassifier {how}", bits(model, **_ranked(model, rows[:50]))
    lazy = lazily(rows, 90), lazily(several, 90)
    model = fitted("MomentMultiLabelClassifier", *lazy, n_states=3, polish=1)
    yield "MomentMultiLabelClassifier lazy", bits(model, **_ranked(model, lazy[0]))
    store = public("write_counts")(rows, str(folder / "labelled"), labels=several, block_rows=110)
    model = fitted("MomentMultiLabelClassifier", store, n_states=3)
    yield "MomentMultiLabelClassifier store", bits(model, **_ranked(model, store))


def _ranked(model: Any, X: Any) -> dict[str, Any]:
    """Ask a classifier of many labels for everything that it predicts."""
    return {
        "decision_function": model.decision_function(X),
        "predict_proba": model.top_labels(X, 2),
        "predict": model.predict(X),
        "state_probabilities": model.state_probabilities(X),
        "topics": model.topics_,
    }


def hybrids(folder: Path) -> Iterator[Case]:
    """Fit HybridLSI with classes and similarities of terms, by every solver."""
    rows, classes, several = counted()
    terms = _similar_terms(rows.shape[1])
    wide = counted(90, 1100)
    settings: dict[str, dict[str, Any]] = {
        "plain": {},
        "krylov": {"solver": "krylov", "n_passes": 3},
        "classes": {"y": classes, "alpha": 0.5},
        "several classes": {"y": several, "alpha": 0.3, "solver": "krylov"},
        "dense terms": {"term_similarity": terms, "beta": 0.05},
        "both": {"y": classes, "alpha": 0.6, "term_similarity": terms, "beta": 0.04, "solver": "nystrom"},
        "matrix": {"term_similarity": terms.matrix, "beta": 0.03},
    }
    store = public("write_counts")(rows, str(folder / "hybrid"), block_rows=50)
    for how, asked in settings.items():
        for kind, X in {"sparse": rows, "lazy": lazily(rows), "store": store}.items():
            model = fitted("HybridLSI", X, n_components=4, **asked)
            yield f"HybridLSI {how} {kind}", bits(model, transform=model.transform(X))
    asked = {"alpha": 0.5, "term_similarity": _similar_terms(1100), "beta": 0.02}
    model = fitted("HybridLSI", wide.rows, wide.classes, n_components=4, **asked)
    yield "HybridLSI wide", bits(model, transform=model.transform(wide.rows))


def _similar_terms(d: int) -> Any:
    """Compare terms by random vectors of words."""
    vectors = np.random.default_rng(9).standard_normal((d, 4))
    names = [f"term{i}" for i in range(d)]
    return public("term_similarity")(names, names[3:], vectors[3:])


def topics(_: Path) -> Iterator[Case]:
    """Fit Topics to rows and to lazy rows."""
    for kind, X in {"sparse": counted().rows, "lazy": lazily(counted().rows)}.items():
        model = fitted("Topics", X, n_topics=4, min_df=1, max_df=1.0)
        yield f"Topics {kind}", bits(model, transform=model.transform(X))


def local_spaces(folder: Path) -> Iterator[Case]:
    """Fit LocalLSI by every method, for one class a document and for several."""
    rows, classes, several = counted()
    wide = counted(90, 2200)
    names = np.array(["red", "green", "blue", "gray"])[classes]
    store = public("write_counts")(rows, str(folder / "local"), labels=several, block_rows=50)
    data = {
        "labels": (rows, names),
        "two labels": (rows, names == "red"),
        "several": (rows.toarray(), several),
        "lazy": (lazily(rows), classes),
        "store": (store, None),
        "wide": (wide.rows, wide.classes),
    }
    for method in ("rds", "lrw"):
        for kind, (X, y) in data.items():
            model = fitted("LocalLSI", X, y, n_components=3, method=method, gamma=1.5, C=0.5)
            outputs = {name: getattr(model, name)(X) for name in ("decision_function", "predict", "transform")}
            yield f"LocalLSI {method} {kind}", bits(model, **outputs)


def intents(folder: Path) -> Iterator[Case]:
    """Fit SentenceRepresentation from text and from a store, IntentClassifier on it, and take word vectors."""
    texts = [" ".join(sentence) for sentence in sentences() if len(sentence) > 2]
    y = np.array([text.split()[0][-2:] for text in texts])
    kept = np.isin(y, ["ng", "ed", "ly"])
    train, y = [text for text, keep in zip(texts, kept, strict=True) if keep], y[kept]
    sent = partial(fitted, "SentenceRepresentation", n_components=6, n_features=1 << 11)
    hashing = public("NgramHashing")(1 << 11, (1, 1), True, False, "auto")
    store = public("build_store")(text_file(folder), str(folder / "sent"), hashing=hashing, block_bytes=2000)
    models = {
        "text": sent(texts),
        "store": sent(store, min_df=1),
        "gram": sent(texts, solver="gram", weight=0.5),
        "krylov": sent(texts, solver="krylov", n_passes=3, random_state=2),
    }
    for how, model in models.items():
        outputs = {"transform": model.transform(texts[:40]), "embed": model.embed(["", *texts[:40]])}
        yield f"SentenceRepresentation {how}", bits(model, **outputs)
    if hasattr(import_module("dspectral"), "WordVectorRepresentation"):
        words, vectors = vectors_of_words()
        given = fitted("WordVectorRepresentation", None, words=words, vectors=vectors, n_features=1 << 11)
        yield "WordVectorRepresentation", {"transform": digest(given.transform(texts[:40]))}
    settings: dict[str, dict[str, Any]] = {
        "alone": {"C": [0.5, 1.0]},
        "represented": {"representation": models["text"], "C": [1.0], "n_folds": 2},
        "plus": {"representation": models["text"], "plus": True, "C": [1.0], "weights": [1.0], "n_folds": 2},
    }
    for how, asked in settings.items():
        model = fitted("IntentClassifier", train[:120], y[:120], **asked)
        scores = model.decision_function(train[60:])
        yield (
            f"IntentClassifier {how}",
            bits(model, predict=model.predict(train[60:]), decision_function=scores),
        )


def trees(folder: Path) -> Iterator[Case]:
    """Fit TreePCA to texts, a corpus, arrays and Dask arrays."""
    texts = sentences()[:150]
    X = np.random.default_rng(6).standard_normal((90, 8, 3)).cumsum(axis=1) + 1.0
    pair = {"length": 8, "vectors": vectors_of_words()}
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "pairs": (texts, {**pair, "first_level": "pairs"}),
        "vectors": (texts, {**pair, "first_level": "vectors", "whiten": True}),
        "three": (texts, {**pair, "length": 9, "arity": 3, "center": False, "n_components": 4}),
        "hashed": (texts, {"length": 4, "n_components": 6}),
        "corpus": (corpus_in(folder, "trees"), {**pair, "memory_limit": 0}),
        "array": (X, {"length": 8, "n_components": 4}),
        "lazy": (lazily(X), {"length": 8, "memory_limit": 0, "whiten": True}),
    }
    for how, (data, asked) in cases.items():
        model = fitted("TreePCA", data, **asked)
        yield f"TreePCA {how}", bits(model, transform=model.transform(data))


def stores(folder: Path) -> Iterator[Case]:
    """Build stores by hashing and by vocabulary, corpora, matrices and files of word vectors."""
    build, write, text = public("build_store"), public("write_counts"), text_file(folder)
    hashing, vocabulary = public("NgramHashing"), public("VocabularySettings")
    records = folder / "records.jsonl"
    lines = [json.dumps({"body": f"{' '.join(sentence)} Äb, {i}!"}) for i, sentence in enumerate(sentences())]
    records.write_text("\n".join(lines), encoding="utf-8")
    grown = {"hashing": hashing(1 << 12), "block_bytes": 3000}
    build(text, str(folder / "s4"), **grown)
    made_stores = {
        "hashed": build(text, str(folder / "s1"), hashing=hashing(1 << 10, (1, 3)), block_bytes=2000),
        "vocabulary": build(
            text, str(folder / "s2"), vocabulary=vocabulary((1, 2), True, 2, 0.9, 200, 3), block_bytes=2000
        ),
        "records": build(str(records), str(folder / "s3"), field="body", vocabulary=vocabulary()),
        "appended": build(text, str(folder / "s4"), append=True, **grown),
        "matrix": write(counted().rows, str(folder / "s5"), labels=counted().several, block_rows=33),
        "signed": write(lazily(-counted().rows), str(folder / "s6"), signed=True),
    }
    for number, (how, store) in enumerate(made_stores.items(), start=1):
        names = store.vocabulary.terms if store.vocabulary else None
        contents = {"counts": store.counts, "labels": store.labels, "sums": store.column_sums, "terms": names}
        found = {name: digest(value) for name, value in contents.items()}
        yield f"store {how}", found | files_of(folder / f"s{number}", folder)
    for tokens in ("blanks", "words"):
        place = folder / f"corpus-{tokens}"
        corpus = public("build_corpus")(text, str(place), min_count=2, tokens=tokens, block_bytes=1500)
        contents = {"words": corpus.words, "counts": corpus.counts, "sentences": corpus.sentences}
        found = {name: digest(value) for name, value in contents.items()}
        yield f"corpus {tokens}", found | files_of(place, folder)
    yield "word vectors", _vector_files(folder)


def _vector_files(folder: Path) -> Digests:
    """Write word vectors as text and in binary, and read them."""
    found = {}
    for ending in ("txt", "bin"):
        path = folder / f"vectors.{ending}"
        public("write_word2vec")(str(path), *vectors_of_words())
        words, vectors = public("read_word2vec")(str(path))
        found[ending] = digest([path.read_bytes(), list(words), vectors])
    return found


def files_of(place: Path, folder: Path) -> Digests:
    """Return digests of the files in a store."""
    files, metadata = [], []
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        name = path.relative_to(place).as_posix()
        if path.suffix == ".json":
            text = path.read_text(encoding="utf-8").replace(str(folder), "")
            metadata.append((name, _lasting(json.loads(text))))
        else:
            files.append((name, path.read_bytes()))
    return {"files": digest(files), "metadata": digest(metadata)}


def _lasting(value: Any) -> Any:
    """Return decoded JSON without what ``"versions"`` and ``"seal"`` hold."""
    if isinstance(value, dict):
        return {key: _lasting(part) for key, part in value.items() if key not in ("versions", "seal")}
    return [_lasting(part) for part in value] if isinstance(value, list) else value


def generators(_: Path) -> Iterator[Case]:
    """Draw from every generator of data."""
    parameters = dataset("state_parameters")(30, 6, 3, seed=1)
    drawn = {
        "anchor_sentences": dataset("anchor_sentences")(200, block_sentences=70, seed=3),
        "brown_model_sentences": dataset("brown_model_sentences")(60, seed=3),
        "low_rank_counts": dataset("low_rank_counts")(70, 40, 3, exponent=0.8, block_rows=30, seed=2),
        "labeled_counts": dataset("labeled_counts")(70, 40, 8, 3, block_rows=30, seed=2),
        "refinement_sequences": dataset("refinement_sequences")(90, block_sequences=40, seed=2),
        "state_parameters": parameters,
        "sample_labeled_documents": dataset("sample_labeled_documents")(50, parameters=parameters, seed=4),
    }
    for name, value in drawn.items():
        yield f"data {name}", {"drawn": digest(value)}
    documents = dataset("standard_library_documents")(Path(json.__file__).parent)
    chosen = dataset("standard_library_intents")(2, documents=documents, seed=1)
    yield "data standard library", {"documents": digest(documents), "intents": digest(chosen)}


def weightings(folder: Path) -> Iterator[Case]:
    """Weigh rows in every way."""
    rows, weighting = counted().rows, public("Weighting")
    frequency = np.asarray((rows != 0).sum(axis=0))
    found = {tf: digest(weighting(tf=tf).apply(rows)) for tf in ("count", "binary", "sqrt", "log")}
    found |= {f"tfidf {n}": digest(weighting.tfidf(frequency, 160, norm=n).apply(rows)) for n in ("l1", "l2")}
    yield "Weighting", found
    yield "term_similarity", {"found": digest(_similar_terms(40))}
    texts = [" ".join(sentence) for sentence in sentences()]
    files = public("TextFiles")(text_file(folder), block_bytes=2000)
    for how, X in {"list": texts, "files": files}.items():
        rows = public("NgramHashing")(1 << 10).fit_transform(X)
        weights = fitted("TfidfWeighting", rows, tf="sqrt")
        yield f"NgramHashing {how}", {"transform()": digest(rows)}
        yield f"TfidfWeighting {how}", bits(weights, transform=weights.transform(rows))


def reports(folder: Path) -> Iterator[Case]:
    """Run workflows; of their reports, the rows without times and memory are taken."""
    asked: dict[str, list[str]] = {
        "brown_clusters": [
            "--corpus",
            text_file(folder),
            "--min-count",
            "2",
            "--n-clusters",
            "5",
            "3",
            "--plain",
        ],
        "lsi_classification": _classification(folder),
        "multilabel": ["--train", _labeled_lines(folder), "--n-states", "3"],
        "pos_induction": ["--corpus", _tagged_lines(folder), "--n-states", "4"],
        "word_embeddings": _word_lists(folder),
    }
    for name, arguments in asked.items():
        yield f"workflow {name}", {"rows": digest(_rows_of(name, [*arguments, "--out", str(folder / name)]))}
    paths = {name: digest((folder / "brown_clusters" / name).read_bytes()) for name in ("paths-5", "paths-3")}
    yield "workflow brown_clusters, files", paths


def _classification(folder: Path) -> list[str]:
    """Write documents with a class each, and return what the workflow is asked for."""
    files = []
    for side, seed in (("train", 1), ("test", 2)):
        path = folder / f"{side}.jsonl"
        path.write_text("\n".join(_styled(120, seed)) + "\n", encoding="utf-8")
        files += [f"--{side}", str(path)]
    asked = "--text title body --label topic --n-components 3 --folds 2 --terms 60 --C 1 --a 5"
    more = "--alpha 0.5 --gamma 2 --b 0.2"
    return [*files, *asked.split(), *more.split()]


def _labeled_lines(folder: Path) -> str:
    """Write documents with several labels in the form of the extreme classification repository."""
    rows, _, several = counted(300)
    lines = [f"{rows.shape[0]} {rows.shape[1]} {several.shape[1]}"]
    for i in range(rows.shape[0]):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        labels = several.indices[several.indptr[i] : several.indptr[i + 1]]
        words = zip(rows.indices[row], rows.data[row], strict=True)
        lines.append(",".join(map(str, labels)) + " " + " ".join(f"{word}:{count:g}" for word, count in words))
    path = folder / "labelled.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _tagged_lines(folder: Path) -> str:
    """Write the sentences a word and its ending a line."""
    lines = ["".join(f"{word}\t{word[4:] or 'none'}\n" for word in sentence) for sentence in sentences()]
    path = folder / "tagged.conll"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def _word_lists(folder: Path) -> list[str]:
    """Write pairs and questions of words, and return what the workflow is asked for."""
    words = sorted({word for sentence in sentences() for word in sentence})
    four = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    pairs, questions = folder / "pairs.tsv", folder / "questions.tsv"
    scored = [f"{a}\t{b}\t{len(set(a) & set(b))}\n" for a, b, _, _ in four]
    pairs.write_text("a\tb\tscore\n" + "".join(scored), encoding="utf-8")
    asked = ["\t".join(("x", *row)) + "\n" for row in four]
    questions.write_text("category\ta\tb\tc\td\n" + "".join(asked), encoding="utf-8")
    files = ["--corpus", text_file(folder), "--similarity", str(pairs), "--analogies", str(questions)]
    return [*files, "--min-count", "2", "--n-components", "5", "--window", "2"]


def _styled(n: int, seed: int) -> Iterator[str]:
    """Draw documents as JSON, whose titles tell a style and whose bodies a topic."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        style, topic = rng.integers(5), rng.integers(3)
        title = " ".join(f"s{style}x{word}" for word in rng.integers(8, size=8))
        body = " ".join(f"t{topic}x{word}" for word in rng.integers(12, size=5))
        yield json.dumps({"title": title, "body": body, "topic": f"topic{topic}"})


def _rows_of(name: str, arguments: list[str]) -> list[list[Any]]:
    """Run a workflow and return the rows of its report that do not depend on the machine."""
    with redirect_stdout(io.StringIO()):
        import_module(f"workflows.{name}").main(arguments)
    report = json.loads((Path(arguments[-1]) / "report.json").read_text(encoding="utf-8"))
    rows = [[row[key] for key in ("data", "method", "metric", "value")] for row in report["rows"]]
    kept = [row for row in rows if not any(word in row[2] for word in NOT_RESULTS)]
    if not kept:
        raise LookupError(f"the report of {name} has no row of results")
    return kept


SUBJECTS: tuple[Callable[[Path], Iterator[Case]], ...] = (
    decompositions, embeddings, brown, latent_tags, refinements, many_labels, hybrids, topics, local_spaces, intents,
    trees, stores, generators, weightings, reports,
)  # fmt: skip


# ------------------------------------------------------------------------------------------- commands


def write(file: Path, tree: Path) -> None:
    """Write the digests of everything that the package in a tree computes."""
    sys.path.insert(0, str(tree))
    source = Path(str(import_module("dspectral").__file__)).resolve()
    if not source.is_relative_to(tree.resolve()):
        raise ImportError(f"dspectral is imported from {source}, not from {tree}")
    found: dict[str, Digests] = {}
    started = time.perf_counter()
    with TemporaryDirectory(prefix="same-bits-") as scratch, warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for subject in SUBJECTS:
            folder = Path(scratch).resolve() / subject.__name__
            folder.mkdir()
            before = time.perf_counter()
            with dask.config.set(scheduler="synchronous"):
                found.update(subject(folder))
            print(f"{subject.__name__}: {time.perf_counter() - before:.1f} s", file=sys.stderr)
    _check_complete(found)
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    n_digests = sum(map(len, found.values()))
    print(f"{file}: {n_digests} digests in {len(found)} cases, {time.perf_counter() - started:.0f} s")


def _check_complete(found: dict[str, Digests]) -> None:
    """Refuse a list of cases in which a public estimator is missing."""
    seen = {name.split()[0] for name in found}
    missing = [name for name in public("__all__") if hasattr(public(name), "fit") and name not in seen]
    if missing:
        raise LookupError(f"there is no case of {', '.join(missing)}")


def compare(first: Path, second: Path) -> int:
    """Print each digest that is not in both files, or not the same, and return how many there are."""
    sides = [_flat(json.loads(path.read_text(encoding="utf-8"))) for path in (first, second)]
    n_different = 0
    for name in sorted(sides[0].keys() | sides[1].keys()):
        values = [side.get(name) for side in sides]
        if values[0] == values[1]:
            continue
        n_different += 1
        only = [path for path, value in zip((first, second), values, strict=True) if value is not None]
        print(f"{name[0]}: {name[1]} " + ("differs" if len(only) > 1 else f"is only in {only[0]}"))
    n_compared = len(sides[0].keys() & sides[1].keys())
    print(f"{n_compared} digests compared: " + (f"{n_different} differences" if n_different else "identical"))
    return n_different


def _flat(found: dict[str, Digests]) -> dict[tuple[str, str], str]:
    """Return digests by case and by what was computed."""
    return {(case, what): value for case, digests in found.items() for what, value in digests.items()}


def against(revision: str) -> int:
    """Compare a revision with the present tree, each in a process of its own, and return the differences."""
    with TemporaryDirectory(prefix="same-bits-") as scratch:
        there = Path(scratch, "tree")
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(there), revision], check=True)
        try:
            files = [Path(scratch, f"{name}.json") for name in ("revision", "present")]
            for file, tree in zip(files, (there, ROOT), strict=True):
                command = [sys.executable, __file__, "write", str(file), "--tree", str(tree)]
                subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            return compare(*files)
        finally:
            subprocess.run([*git, "remove", "--force", str(there)], check=True)


def main() -> None:
    """Run the command that is asked for; the exit status is 1 if there are differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the digests of a tree")
    writing.add_argument("file", type=Path)
    writing.add_argument("--tree", type=Path, default=ROOT, help="root of a checkout (that of this file)")
    comparing = commands.add_parser("compare", help="compare two files of digests")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    commands.add_parser("against", help="compare a revision of git with this tree").add_argument("revision")
    arguments = parser.parse_args()
    if arguments.command == "write":
        write(arguments.file, arguments.tree)
    elif arguments.command == "compare":
        sys.exit(compare(arguments.first, arguments.second) > 0)
    else:
        sys.exit(against(arguments.revision) > 0)


if __name__ == "__main__":
    main()
