"""One case for each public estimator: how it is made, what it is fitted on, and what scikit-learn may not ask of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import dspectral

N = 36
"""Documents, sentences or rows of each case."""


class Case(NamedTuple):
    """An estimator, small enough to be fitted in well under a second once its loops are compiled.

    Attributes
    ----------
    make : callable
        Returns the estimator, not fitted; keywords override its parameters.
    data : callable
        Returns ``(X, y)``; y is None where there is none.
    result : callable
        What a user gets of a fitted estimator and X, as an array or a list.
    grid : dict
        Parameters to search over.
    kind : str
        What X is: "rows", "texts", "sentences" or "tagged".
    """

    make: Callable[..., Any]
    data: Callable[[], tuple[Any, Any]]
    result: Callable[[Any, Any], Any]
    grid: dict[str, list[Any]]
    kind: str


def transformed(model: Any, X: Any) -> Any:
    return model.transform(X)


def predicted(model: Any, X: Any) -> Any:
    return model.predict(X)


def counts() -> Any:
    """Counts of 24 words in N documents of two topics."""
    rng = np.random.default_rng(0)
    topic = np.arange(N) % 2
    rate = np.where((np.arange(24) % 2)[None, :] == topic[:, None], 1.6, 0.2)
    return sparse.csr_array(rng.poisson(rate).astype(float))


def rows() -> tuple[Any, Any]:
    return counts(), None


def rows_of_classes() -> tuple[Any, Any]:
    return counts(), np.array(["even", "odd"])[np.arange(N) % 2]


def rows_of_labels() -> tuple[Any, Any]:
    topic = np.arange(N) % 2
    return counts(), np.stack([topic == 0, topic == 1, np.arange(N) % 3 == 0], axis=1).astype(int)


def frames() -> tuple[Any, Any]:
    return np.random.default_rng(1).standard_normal((N, 3)), None


def joined_vectors() -> tuple[Any, Any]:
    return np.random.default_rng(2).standard_normal((N, 8)), None


def texts() -> tuple[Any, Any]:
    words = [["play", "jazz", "loud", "music"], ["book", "flight", "cheap", "paris"]]
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(words[i % 2], size=4)) for i in range(N)], None


def texts_of_classes() -> tuple[Any, Any]:
    return texts()[0], np.array(["music", "travel"])[np.arange(N) % 2]


def sentences() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    subjects, verbs = ["dog", "cat", "man", "bird"], ["eats", "sees", "runs", "sings"]
    draw = lambda words: str(rng.choice(words))  # noqa: E731
    return [["the", draw(subjects), draw(verbs), "the", draw(subjects)] for _ in range(N)], None


def tagged() -> tuple[Any, Any]:
    X, _ = sentences()
    return X, [["D", "N", "V", "D", "N"] for _ in X]


VECTORS = np.random.default_rng(5).standard_normal((8, 3))
WORDS = ["play", "jazz", "loud", "music", "book", "flight", "cheap", "paris"]


def made(name: str, **small: Any) -> Callable[..., Any]:
    """Return a function that makes an estimator of this name with small parameters."""
    return lambda **parameters: getattr(dspectral, name)(**{**small, **parameters})


CASES: dict[str, Case] = {
    "SketchedPCA": Case(made("SketchedPCA", n_components=2), rows, transformed, {"n_components": [1, 2]}, "rows"),
    "PCA": Case(made("PCA", n_components=2), rows, transformed, {"n_components": [1, 2]}, "rows"),
    "TruncatedSVD": Case(made("TruncatedSVD", n_components=2), rows, transformed, {"n_components": [1, 2]}, "rows"),
    "Topics": Case(made("Topics", n_topics=2, min_df=1, max_df=1.0), rows, transformed, {"n_topics": [1, 2]}, "rows"),
    "TfidfWeighting": Case(made("TfidfWeighting"), rows, transformed, {"norm": ["l1", "l2"]}, "rows"),
    "HybridLSI": Case(
        made("HybridLSI", n_components=2, alpha=0.3),
        rows_of_classes,
        transformed,
        {"alpha": [0.0, 0.5]},
        "rows",
    ),
    "LocalLSI": Case(
        # 15 passes a fit instead of 64.
        made("LocalLSI", n_components=2, recipe=dspectral.LocalRecipe(tol=1e-2)),
        rows_of_classes,
        predicted,
        {"C": [0.5, 1.0]},
        "rows",
    ),
    "MomentMultiLabelClassifier": Case(
        made("MomentMultiLabelClassifier", n_states=2),
        rows_of_labels,
        predicted,
        {"smoothing": [0.01, 0.3]},
        "rows",
    ),
    "VectorQuantizer": Case(made("VectorQuantizer", n_codes=4), frames, transformed, {"n_codes": [2, 4]}, "rows"),
    "TreePCA": Case(
        made("TreePCA", n_components=2, length=4),
        joined_vectors,
        transformed,
        {"n_components": [1, 2]},
        "rows",
    ),
    "NgramHashing": Case(made("NgramHashing", n_features=64), texts, transformed, {"n_features": [32, 64]}, "texts"),
    "SentenceRepresentation": Case(
        made("SentenceRepresentation", n_components=2, n_features=256, min_df=1),
        texts,
        transformed,
        {"weight": [0.5, 1.0]},
        "texts",
    ),
    "WordVectorRepresentation": Case(
        made("WordVectorRepresentation", words=WORDS, vectors=VECTORS), texts, transformed, {}, "texts"
    ),
    "IntentClassifier": Case(made("IntentClassifier", C=1.0), texts_of_classes, predicted, {"C": [0.3, 1.0]}, "texts"),
    "WordEmbedding": Case(
        made("WordEmbedding", n_components=2),
        sentences,
        lambda model, X: model.vectors_,
        {"n_components": [1, 2]},
        "sentences",
    ),
    "SpectralBrownClustering": Case(
        made("SpectralBrownClustering", n_clusters=3, n_dimensions=4),
        sentences,
        lambda model, X: model.labels_,
        {"n_clusters": [2, 3]},
        "sentences",
    ),
    "AnchorHMM": Case(
        made("AnchorHMM", n_states=3, min_count=1), sentences, predicted, {"n_states": [2, 3]}, "sentences"
    ),
    "EMHMM": Case(made("EMHMM", n_states=2, n_iter=3), sentences, predicted, {"n_states": [2, 3]}, "sentences"),
    "RefinementHMM": Case(
        made("RefinementHMM", n_refinements=2), tagged, predicted, {"smoothing": [0.1, 1.0]}, "tagged"
    ),
}

TAKES_SEQUENCES = "takes sentences, lists of tokens, where this check gives a matrix of numbers"
TAKES_TEXTS = "takes texts, where this check gives a matrix of numbers"

ONE_LABEL = "gives one label a document, but y is an indicator matrix"
CLASSES = "gives a column of the classes 1 and 2, but y is an indicator matrix of 0 and 1"
COLUMNS = "asks which classes predict_proba has, but its columns are labels"

EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "MomentMultiLabelClassifier": {
        "check_classifier_data_not_an_array": CLASSES,
        "check_classifier_multioutput": "wants labels whose score is above 0, but predict returns the best ones",
        "check_classifier_not_supporting_multiclass": "wants the sentence of a classifier of two classes",
        "check_classifiers_classes": ONE_LABEL,
        "check_classifiers_one_label": ONE_LABEL,
        "check_classifiers_train": ONE_LABEL,
        "check_decision_proba_consistency": ONE_LABEL,
        "check_estimator_sparse_array": COLUMNS,
        "check_estimator_sparse_matrix": COLUMNS,
        "check_estimators_dtypes": CLASSES,
    },
}
"""Checks of scikit-learn that cannot apply, by estimator, with the reason. Every other check passes."""
NO_CHECKS = {
    "TreePCA": "takes sentences of vectors, three dimensions, where this check gives two",
    "WordEmbedding": TAKES_SEQUENCES,
    "SpectralBrownClustering": TAKES_SEQUENCES,
    "AnchorHMM": TAKES_SEQUENCES,
    "EMHMM": TAKES_SEQUENCES,
    "RefinementHMM": TAKES_SEQUENCES,
    "NgramHashing": TAKES_TEXTS,
    "SentenceRepresentation": TAKES_TEXTS,
    "WordVectorRepresentation": TAKES_TEXTS,
    "IntentClassifier": TAKES_TEXTS,
}
"""Estimators of which only the checks that need no data are asked."""
