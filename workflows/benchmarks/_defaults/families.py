"""Families of methods: of each the data sets, how it is made, what its settings are chosen from, and its scores."""

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD as ArpackSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import mutual_info_score, v_measure_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from dspectral import (
    AnchorHMM,
    EmbeddingRecipe,
    HybridLSI,
    LocalLSI,
    MomentMultiLabelClassifier,
    NgramHashing,
    RefinementHMM,
    RefinementRecipe,
    SpectralBrownClustering,
    TfidfWeighting,
    TreePCA,
    TruncatedSVD,
    WordEmbedding,
)
from dspectral.inputs import as_labeled_corpus, pair_with_labels
from dspectral.methods.lsi import train_linear_svms
from dspectral.methods.multilabel import MultiLabelRecipe

from ..._parts.lsi_methods import scored
from ..._parts.scores import (
    analogy_accuracy,
    document_auc,
    frame_accuracy,
    many_to_one,
    precision_at,
    word_similarity,
)
from ..._parts.text_classifiers import LeastSquares, SupportVectors
from ...pos_induction import states_of
from ...tmpca_classification import known_words, mean_vector
from . import sets
from .sets import Data, Part

Settings = Mapping[str, Any]
Grid = Mapping[str, tuple[Any, ...]]


def learn(model: Any, part: Part) -> Any:
    """Fit rows with what is known of them."""
    return model.fit(part.X, part.y)


def learn_rows(model: Any, part: Part) -> Any:
    """Fit rows alone."""
    return model.fit(part.X)


class Family(NamedTuple):
    """A family of methods: its data sets, how one is read and a model made, what each way chooses from, its scores."""

    sets: tuple[str, ...]
    read: Callable[[Path, str, str, int], Data]
    make: Callable[[str, Settings, int], Any]
    ways: Mapping[str, Grid]
    score: Callable[[Any, Part], dict[str, float]]
    learn: Callable[[Any, Part], Any] = learn


N_STATES, N_CLUSTERS, DIMENSIONS = 12, 50, 100


def anchors(way: str, settings: Settings, seed: int) -> Any:
    """Make an anchor HMM with a state for each universal tag."""
    kind = AnchorHMM.as_published if way == "as published" else AnchorHMM
    return kind(N_STATES, random_state=seed, **settings)


def classes_found(model: Any, part: Part) -> dict[str, float]:
    """Hold the states of tokens against their tags."""
    tags, states = list(chain(*part.y)), np.concatenate(states_of(model, part.X))
    return {"many_to_one": many_to_one(tags, states), "v_measure": v_measure_score(tags, states)}


def clusters(way: str, settings: Settings, seed: int) -> Any:
    """Make a clustering of words."""
    kind = SpectralBrownClustering.as_published if way == "as published" else SpectralBrownClustering
    return kind(N_CLUSTERS, random_state=seed, **settings)


def information(model: Any, part: Part) -> dict[str, float]:
    """Return the mutual information of adjacent clusters in bits, and how well clusters tell tags."""
    found = states_of(model, part.X)
    left, right = (np.concatenate([one[cut] for one in found]) for cut in (np.s_[:-1], np.s_[1:]))
    many = many_to_one(list(chain(*part.y)), np.concatenate(found))
    return {
        "average_mutual_information_bits": mutual_info_score(left, right) / np.log(2),
        "many_to_one": many,
    }


def embedding(way: str, settings: Settings, seed: int) -> Any:
    """Make word vectors; tuned ones have two zones of context, which bring near-synonyms together."""
    if way == "as published":
        return WordEmbedding.as_published(random_state=seed)
    recipe = EmbeddingRecipe(context="zones", context_smoothing=1.0) if way == "tuned" else None
    return WordEmbedding(random_state=seed, recipe=recipe, **settings)


def word_lists(model: Any, part: Part) -> dict[str, float]:
    """Score vectors by pairs of words, or by analogies; the type of rare words, the first, is no word."""
    words, vectors, asked = model.words_[1:], model.vectors_[1:], part.y
    if asked.pairs is not None:
        return {"spearman": word_similarity(words, vectors, asked.pairs).spearman}
    return {"accuracy_3cosadd": analogy_accuracy(words, vectors, asked.questions or []).accuracy}


class Spaces:
    """Hybrid or local LSI with its linear machines, for the classes that two training documents or more have."""

    def __init__(self, model: Any, C: float | None = None) -> None:
        self.model, self.C = model, C

    def fit(self, rows: Any, members: Any) -> "Spaces":
        """Decompose, and train machines on documents folded in where the model has none of its own."""
        self.known = np.flatnonzero(members.sum(axis=0) > 1)
        own, self.n_classes = sparse.csr_array(members[:, self.known]), members.shape[1]
        k = self.model.n_components
        self.model.set_params(n_components=k if isinstance(k, str) else min(k, *rows.shape)).fit(rows, own)
        if self.C is not None:
            streams = pair_with_labels(self._folded(rows), own)
            self.machines = train_linear_svms(streams, self.C, 1e-4, 2000)
        return self

    def _folded(self, rows: Any) -> Any:
        return np.asarray(self.model.transform(rows), dtype=np.float64)

    def decide(self, rows: Any) -> Any:
        """Score each class of new documents, the lowest for one that is not known."""
        found = np.full((rows.shape[0], self.n_classes), -np.inf)
        if self.C is None:
            found[:, self.known] = self.model.decision_function(rows)
        else:
            found[:, self.known] = self._folded(rows) @ self.machines.axes + self.machines.offsets
        return found


def hybrid(_way: str, settings: Settings, seed: int) -> Any:
    """Make Hybrid LSI with machines of a given penalty."""
    given = dict(settings)
    return Spaces(HybridLSI(random_state=seed, **{k: v for k, v in given.items() if k != "C"}), given["C"])


def local(_way: str, settings: Settings, seed: int) -> Any:
    """Make local LSI, whose machines are its own."""
    return Spaces(LocalLSI(random_state=seed, **settings))


def f1_weighted(model: Any, part: Part) -> dict[str, float]:
    """Return the mean F1 of all classes, weighted by their documents."""
    exclusive = int(part.y.sum(axis=1).max()) == 1
    return {"f1_weighted": scored(model.decide(part.X), part.y, exclusive=exclusive).weighted}


def multilabel(way: str, settings: Settings, seed: int) -> Any:
    """Make the classifier of many labels."""
    if way == "as published":
        return MomentMultiLabelClassifier.as_published(random_state=seed, **settings)
    given = dict(settings)
    recipe = MultiLabelRecipe(alpha=given.pop("alpha")) if "alpha" in given else None
    return MomentMultiLabelClassifier(recipe=recipe, random_state=seed, **given)


def rankings(model: Any, part: Part) -> dict[str, float]:
    """Return the area under the curve, and the precision of the first label."""
    found = model.decision_function(part.X)
    area, first = document_auc(found, part.y), precision_at(found, part.y, 1)
    return {"auc": float(np.nanmean(area)), "precision_at_1": float(np.nanmean(first))}


def refinements(way: str, settings: Settings, seed: int) -> Any:
    """Make a hidden Markov model of refined labels, which as published is decoded by operators."""
    recipe = RefinementRecipe(decoding="operators") if way == "as published" else None
    return RefinementHMM(recipe=recipe, random_state=seed, **settings)


def learn_sequences(model: Any, part: Part) -> Any:
    """Fit sequences with their labels."""
    return model.fit(as_labeled_corpus(part.X, part.y))


def tokens_right(model: Any, part: Part) -> dict[str, float]:
    """Return the share of tokens with the right label."""
    return {"accuracy": frame_accuracy(part.y, model.predict(part.X))}


class Trees:
    """Nodes of a tree over the vectors of a text's words, and a linear classifier of them."""

    def __init__(self, machine: Any, seed: int, **settings: Any) -> None:
        self.machine, self.seed, self.settings = machine, seed, settings

    def fit(self, texts: Any, labels: Any) -> "Trees":
        """Learn word vectors, the tree and the classifier from the same texts."""
        vectors = WordEmbedding(DIMENSIONS, min_count=2, random_state=self.seed).fit(texts)
        words, matrix = known_words((vectors.words_, vectors.vectors_))
        pair = (words, matrix - mean_vector(words, matrix, texts))
        self.tree = TreePCA(matrix.shape[1], vectors=pair, **self.settings).fit(texts)
        self.machine.fit(self.tree.transform(texts), labels)
        return self

    def predict(self, texts: Any) -> Any:
        """Return the label of each text."""
        return self.machine.predict(self.tree.transform(texts))


def trees(way: str, settings: Settings, seed: int) -> Any:
    """Make a tree with least squares, as published with a linear support vector machine."""
    return Trees(SupportVectors(seed) if way == "as published" else LeastSquares(seed), seed, **settings)


def pipelines(way: str, settings: Settings, seed: int) -> Any:
    """Make a linear classifier of tf-idf, of our hashed n-grams or of scikit-learn's words, perhaps behind an SVD."""
    given = dict(settings)
    svd = given.pop("svd", 0)
    if way.startswith("scikit-learn"):
        steps: list[Any] = [TfidfVectorizer(), *([ArpackSVD(svd, random_state=seed)] if svd else [])]
    else:
        spaces = [TruncatedSVD(svd, random_state=seed)] if svd else []
        steps = [NgramHashing(**given), TfidfWeighting(), *spaces]
    return make_pipeline(*steps, LinearSVC(random_state=seed))


def labels_right(model: Any, part: Part) -> dict[str, float]:
    """Return the share of texts with the right label."""
    return {"accuracy": float(np.mean(model.predict(part.X) == part.y))}


def ways(tuned: Grid, default: Grid | None = None, published: Grid | None = None) -> dict[str, Grid]:
    """Return what each way chooses from: by default nothing."""
    return {"default": default or {}, "tuned": tuned, "as published": published or {}}


LSI: Grid = {"n_components": (100, 300), "alpha": (0.1, 0.5, 0.9), "C": (1.0, 10.0)}
LOCAL: Grid = {"n_components": (25, 100), "method": ("rds", "lrw"), "C": (1.0, 3.0, 10.0)}
DOCUMENTS = (
    "atis", "banking77", "clinc150", "imdb", "movie_reviews", "newsgroups20", "reuters21578", "sms_spam", "snips",
    "sst2", "trec",
)  # fmt: skip
WHOLE = ("banking77", "clinc150", "mr", "newsgroups20", "reuters21578", "sms_spam", "sst2", "trec")
HASHING: Grid = {"n_features": (2**17, 2**20), "ngram_range": ((1, 1), (1, 2))}
SVD: Grid = {"svd": (100,)}
TREES = ("atis", "banking77", "clinc150", "mr", "sms_spam", "snips", "sst2", "sst5", "trec")
TAGGED = (
    "de_gsd", "en_ewt", "es_gsd", "fr_gsd", "fr_sequoia", "id_gsd", "ja_gsd", "pt_gsd", "sv_lines", "sv_talbanken",
)  # fmt: skip

FAMILIES: dict[str, Family] = {
    "anchor_hmm": Family(
        TAGGED, sets.read_classes, anchors,
        ways({"spelling": (0.0, 0.1, 0.3, 1.0), "min_count": (2, 4, 8)}), classes_found, learn_rows,
    ),
    "brown": Family(
        TAGGED, sets.read_clusters, clusters,
        ways({"n_dimensions": (32, 64), "count_transform": ("sqrt", "log"), "min_count": (1, 2, 4)}),
        information, learn_rows,
    ),
    "embeddings": Family(
        sets.HALVES, sets.read_halves, embedding, ways({"window": (2, 10), "power": (0.3, 0.7)}), word_lists,
        learn_rows,
    ),
    "local_lsi": Family(
        DOCUMENTS, sets.read_documents, local,
        ways(LOCAL, published={**LOCAL, "n_components": (100,), "method": ("lrw",)}), f1_weighted,
    ),
    "lsi": Family(
        DOCUMENTS, sets.read_documents, hybrid,
        ways(LSI, {"C": LSI["C"]}, {**LSI, "n_components": (100,)}), f1_weighted,
    ),
    "multilabel": Family(
        sets.MULTILABEL, sets.read_multilabel, multilabel,
        ways({"alpha": (0.02, 0.05, 0.1, 0.2, 0.4, 1.0)}, published={"n_states": (100,)}),
        rankings,
    ),
    "refinement_hmm": Family(
        tuple(sets.SEQUENCES), sets.read_sequences, refinements,
        ways({"n_refinements": (1, 4, 8), "n_em_iter": (3, 10), "smoothing": (0.01, 0.1)}), tokens_right,
        learn_sequences,
    ),
    "texts": Family(
        WHOLE, sets.read_whole, pipelines,
        {
            "default": {}, "tuned": HASHING, "scikit-learn": {},
            "default, SVD": SVD, "scikit-learn, SVD": SVD,
        },
        labels_right,
    ),
    "tree": Family(
        TREES, sets.read_words, trees,
        ways({"output": ("root", "levels", "pooled", "sliding"), "length": (16, 32, 64)}), labels_right,
    ),
}  # fmt: skip
"""By their names."""
