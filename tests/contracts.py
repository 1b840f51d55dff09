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
    kind : str
        What X is: "rows", "texts", "sentences" or "tagged".
    """

    make: Callable[..., Any]
    data: Callable[[], tuple[Any, Any]]
    result: Callable[[Any, Any], Any]
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


def case(name: str, kind: str, data: Any, result: Any = transformed, **small: Any) -> tuple[str, Case]:
    """Return the name and the case of an estimator with small parameters."""
    return name, Case(lambda **parameters: getattr(dspectral, name)(**{**small, **parameters}), data, result, kind)


CASES = dict(
    [
        case("SketchedPCA", "rows", rows, n_components=2),
        case("PCA", "rows", rows, n_components=2),
        case("TruncatedSVD", "rows", rows, n_components=2),
        case("Topics", "rows", rows, n_topics=2, min_df=1, max_df=1.0),
        case("TfidfWeighting", "rows", rows),
        case("HybridLSI", "rows", rows_of_classes, n_components=2, alpha=0.3),
        # 15 passes a fit instead of 64.
        case("LocalLSI", "rows", rows_of_classes, predicted, n_components=2, recipe=dspectral.LocalRecipe(tol=1e-2)),
        case("MomentMultiLabelClassifier", "rows", rows_of_labels, predicted, n_states=2),
        case("VectorQuantizer", "rows", frames, n_codes=4),
        case("TreePCA", "rows", joined_vectors, n_components=2, length=4),
        case("NgramHashing", "texts", texts, n_features=64),
        case("SentenceRepresentation", "texts", texts, n_components=2, n_features=256, min_df=1),
        case("WordVectorRepresentation", "texts", texts, words=WORDS, vectors=VECTORS),
        case("IntentClassifier", "texts", texts_of_classes, predicted, C=1.0),
        case("WordEmbedding", "sentences", sentences, lambda model, _: model.vectors_, n_components=2),
        case(
            "SpectralBrownClustering",
            "sentences",
            sentences,
            lambda model, _: model.labels_,
            n_clusters=3,
            n_dimensions=4,
        ),
        case("AnchorHMM", "sentences", sentences, predicted, n_states=3, min_count=1),
        case("EMHMM", "sentences", sentences, predicted, n_states=2, n_iter=3),
        case("RefinementHMM", "tagged", tagged, predicted, n_refinements=2),
    ]
)

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
