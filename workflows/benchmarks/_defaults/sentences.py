"""Intents from few labels: the defaults, the best of a grid of parts, the paper's recipe, and beside two peers."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from dspectral import IntentClassifier, IntentRecipe, SentenceRepresentation

from ..._form import form
from ..._parts.intent_scores import Labelled
from ...intent_classification import drawn
from .family import Family, Found
from .intent_sets import SETS, read_intents

LABELLED = 10
"""Labelled sentences an intent; all other training sentences are unlabelled text."""
DRAWS = 2
"""Random draws of the labelled sentences, over which accuracies and times are averaged."""
N_COMPONENTS = 200
"""Length of a word's vector: the default, and that of the peers."""
GRID: dict[str, Any] = {"C": (1.0, 3.0, 10.0), "weights": (0.5, 1.0, 2.0)}
"""What a person would try with each part of the representation, and with the counts alone."""


class Drawn(NamedTuple):
    """One draw of a data set.

    `text`: all training sentences, without labels; `train, test`: the labelled sentences of the draw, and the
    test side; `seed`: of everything random.
    """

    text: list[str]
    train: Labelled
    test: Labelled
    seed: int


Way = tuple[NDArray[Any], str, float]
"""Predicted intents, what was chosen, and the CPU seconds of the last fit."""


def found(run: form.Run, data: Path, name: str, _scratch: str) -> Iterator[Found]:
    """Learn from a data set in each way."""
    train, test = read_intents(data, name)
    seeds = [run.arguments.seed + draw for draw in range(DRAWS)]
    draws = [Drawn(train.texts, train.at(drawn(train.intents, LABELLED, seed)), test, seed) for seed in seeds]
    _learned(draws[0])  # the first in a process also loads compiled loops, which no way shall pay for
    for method, way in WAYS.items():
        with run.measure(f"{name}: {method}"):
            reached = [way(one) for one in draws]
        accuracy = np.mean([np.mean(predicted == test.intents) for predicted, _, _ in reached])
        settings = "; ".join(dict.fromkeys(chosen for _, chosen, _ in reached))
        seconds = float(np.mean([used for _, _, used in reached]))
        yield Found(method, settings, seconds, {"accuracy": float(accuracy)})


def default(one: Drawn) -> Way:
    """Take the constructors' defaults, choice included in the time."""
    before = time.process_time()
    model = IntentClassifier(_learned(one), random_state=one.seed).fit(*one.train)
    return model.predict(one.test.texts), _said(model), time.process_time() - before


def tuned(one: Drawn) -> Way:
    """Choose from a larger grid by cross-validation; the time is that of one fit with what was chosen."""
    auto = IntentRecipe(half="auto")
    best = IntentClassifier(_learned(one), recipe=auto, random_state=one.seed, **GRID).fit(*one.train)
    before = time.process_time()
    chosen: dict[str, Any] = {"C": best.choice_.C, "random_state": one.seed}
    if best.half_ != "none":
        beside = IntentRecipe(half=best.half_)
        chosen |= {"representation": _learned(one), "recipe": beside, "weights": best.choice_.weight}
    model = IntentClassifier(**chosen).fit(*one.train)
    return model.predict(one.test.texts), _said(best), time.process_time() - before


def as_published(one: Drawn) -> Way:
    """Follow the paper's equation 2: directions of raw counts of n-grams, all n-grams projected.

    Exact directions take the place of the sketch, of 2^16 columns.
    """
    before = time.process_time()
    hashing = HashingVectorizer(ngram_range=(1, 3), n_features=2**16, alternate_sign=False, norm=None)
    rows = hashing.transform(one.text)
    svd = TruncatedSVD(min(N_COMPONENTS, rows.shape[0] - 1), random_state=one.seed).fit(rows)

    def features(texts: list[str]) -> sparse.csr_matrix:
        counts = hashing.transform(texts)
        return sparse.hstack([normalize(counts), normalize(svd.transform(counts))], format="csr")

    return _of_features(one, features, before)


def words_alone(one: Drawn) -> Way:
    """Fit scikit-learn's tf-idf of the labelled sentences, one and two words, with a linear SVM of each intent."""
    before = time.process_time()
    tfidf = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(one.train.texts)
    # No stratified folds: an intent may have one sentence.
    folds = KFold(3, shuffle=True, random_state=one.seed)
    model = GridSearchCV(LinearSVC(), {"C": [0.1, 1.0, 10.0]}, cv=folds)
    model.fit(tfidf.transform(one.train.texts), one.train.intents)
    predicted = model.predict(tfidf.transform(one.test.texts))
    return predicted, "", time.process_time() - before


def latent(one: Drawn) -> Way:
    """Put scikit-learn's tf-idf of all text beside its truncated SVD, with the same machine."""
    before = time.process_time()
    tfidf = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2).fit(one.text)
    rows = tfidf.transform(one.text)
    svd = TruncatedSVD(min(N_COMPONENTS, min(rows.shape) - 1), random_state=one.seed).fit(rows)

    def features(texts: list[str]) -> sparse.csr_matrix:
        counts = tfidf.transform(texts)
        return sparse.hstack([counts, normalize(svd.transform(counts))], format="csr")

    return _of_features(one, features, before)


def _of_features(one: Drawn, features: Callable[[list[str]], Any], before: float) -> Way:
    svm = LinearSVC(multi_class="crammer_singer", C=1.0, tol=0.01, max_iter=5000, random_state=one.seed)
    svm.fit(features(one.train.texts), one.train.intents)
    return svm.predict(features(one.test.texts)), "", time.process_time() - before


def _learned(one: Drawn) -> SentenceRepresentation:
    return SentenceRepresentation(min(N_COMPONENTS, len(one.text)), random_state=one.seed).fit(one.text)


def _said(model: IntentClassifier) -> str:
    choice = model.choice_
    if model.half_ == "none":
        return f"none, C {choice.C:g}"
    return f"{model.half_}, C {choice.C:g}, weight {choice.weight:g}"


WAYS: dict[str, Callable[[Drawn], Way]] = {
    "default": default,
    "tuned": tuned,
    "as published": as_published,
    "tf-idf": words_alone,
    "tf-idf and SVD": latent,
}
"""Functions that learn from one draw, by the names of the table."""
FAMILY = Family(tuple(SETS), found)
"""What the table asks for."""
