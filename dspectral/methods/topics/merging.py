"""Topics of two texts as one model: matched by their words, and summed."""

from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dspectral.linalg.dense import normalize_rows
from dspectral.methods.topics.rotation import TopicAxes, TopicSums
from dspectral.types import Doubles, FloatArray, IntArray


class PlacedTopics(NamedTuple):
    """Topics in the columns of two models, shape (k, d).

    `sums`: words and shares times the number of documents; `directions` (k, d): axes, times the same number;
    `factor` (r, d): singular vectors times singular values; `document_frequency` (d,), `n_documents` (d,): 0 for
    columns that the model does not use.
    """

    sums: TopicSums
    directions: FloatArray
    factor: FloatArray
    document_frequency: Doubles
    n_documents: Doubles

    @classmethod
    def from_arrays(
        cls, sums: TopicSums, axes: TopicAxes, idf: FloatArray, n_rows: int, columns: IntArray, n_columns: int
    ) -> Self:
        """Place columns at their positions among all d, and recover document frequencies from the IDF."""

        def scatter(values: FloatArray) -> Doubles:
            out = np.zeros((*values.shape[:-1], n_columns))
            out[..., columns] = values
            return out

        mass = sums.share[:, None]
        return cls(
            sums._replace(words=scatter(mass * sums.words), group_words=scatter(sums.group_words)),
            scatter(mass * (axes.rotation.T @ axes.components)),
            scatter(axes.singular_values[:, None] * axes.components),
            scatter((1 + n_rows) * np.exp(1 - idf) - 1),
            scatter(np.full(len(columns), float(n_rows))),
        )

    def renumber(self, numbers: IntArray, n_topics: int) -> Self:
        """Return the topics with new numbers; unused numbers get empty topics."""

        def scatter(values: Any, empty: float = 0.0) -> Any:
            out = np.full((n_topics, *values.shape[1:]), empty, dtype=values.dtype)
            out[numbers] = values
            return out

        empty_values = {"cosines": -2.0, "nearest": -1}
        sums = TopicSums(**{
            name: scatter(values, empty_values.get(name, 0.0)) for name, values in self.sums._asdict().items()
        })  # fmt: skip
        return self._replace(sums=sums, directions=scatter(self.directions))


def match_topics(first: FloatArray, second: FloatArray, min_cosine: float) -> NDArray[np.int64]:
    """Return the number of each topic of the second model (m,) in the first one; topics without a match get new ones.

    The assignment has the largest sum of cosines; pairs below ``min_cosine`` do not match. Shapes: (k, d), (m, d).
    """
    cosines = normalize_rows(first) @ normalize_rows(second).T
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    is_match = cosines[rows, columns] >= min_cosine
    numbers = np.full(len(second), -1)
    numbers[columns[is_match]] = rows[is_match]
    is_new = numbers < 0
    numbers[is_new] = len(first) + np.arange(is_new.sum())
    return numbers


def merge_topics(
    first: PlacedTopics, second: PlacedTopics, n_rows: int, n_nearest: int, min_cosine: float
) -> tuple[TopicSums, TopicAxes, Doubles]:
    """Return sums, axes and inverse document frequencies of the topics of two models with `n_rows` documents."""
    numbers = match_topics(first.sums.words, second.sums.words, min_cosine)
    k = max(len(first.directions), int(numbers.max()) + 1)
    first, second = first.renumber(np.arange(len(first.directions)), k), second.renumber(numbers, k)
    sums = first.sums.keep_nearest(n_nearest).merge(second.sums)
    # The polar factor of the directions is the nearest set of orthonormal axes.
    left, values, right = scipy.linalg.svd(normalize_rows(first.directions + second.directions), full_matrices=False)
    rank = int(np.sum(values > np.finfo(np.float32).eps * values[0]))
    components = right[:rank]
    energy = sum(np.square(part.factor @ components.T).sum(axis=0) for part in (first, second))
    axes = TopicAxes(components, np.sqrt(energy), left[:, :rank].T)
    # A column that one model does not use has the same share of documents in its text.
    seen = first.n_documents + second.n_documents
    frequency = (first.document_frequency + second.document_frequency) * (n_rows / seen)
    return sums, axes, np.log((1 + n_rows) / (1 + frequency)) + 1


def merge_models(first: Any, second: Any, min_cosine: float) -> Any:
    """Return the Topics of the documents of two Topics; rows of the second are numbered after those of the first."""
    rule, expected = _counting_rule(second), _counting_rule(first)
    if rule != expected:
        raise ValueError(
            f"other counts words by {rule}, but must count them by {expected}: fit it with the same tf and the "
            "same tokenizer or hashing"
        )
    merged, positions = _join_columns(first, second)
    placed: list[PlacedTopics] = []
    documents: dict[str, dict[int, str]] = {"document_ids_": {}, "document_texts_": {}}
    for model, columns, offset in zip((first, second), positions, (0, first.n_documents_), strict=True):
        rows = np.where(model.document_rows_ < 0, -1, model.document_rows_ + offset)
        shares = model.topic_shares_ * model.n_documents_
        groups = model.group_words_, model.group_sizes_
        sums = TopicSums(model.components_, shares, model.document_cosines_, rows, *groups)
        axes = TopicAxes(model.axes_, model.singular_values_, model.rotation_)
        n_columns = len(merged.columns_)
        placed.append(PlacedTopics.from_arrays(sums, axes, model.idf_, model.n_documents_, columns, n_columns))
        for name, strings in documents.items():
            for topic, own in zip(rows.tolist(), getattr(model, name) or [], strict=False):
                strings.update(zip(topic, own, strict=False))
    n_rows = first.n_documents_ + second.n_documents_
    sums, axes, merged.idf_ = merge_topics(placed[0], placed[1], n_rows, first.n_top_documents, min_cosine)
    merged.singular_values_ = axes.singular_values
    merged._set_topics(axes, sums, n_rows, np.arange(len(sums.share)))  # noqa: SLF001
    for name, strings in documents.items():
        are_complete = getattr(first, name) is not None and getattr(second, name) is not None
        lists = [
            [strings[row] for row in topic if row >= 0] for topic in merged.document_rows_.tolist() if are_complete
        ]
        setattr(merged, name, lists or None)
    merged.n_passes_ = max(first.n_passes_, second.n_passes_)
    return merged


def _counting_rule(model: Any) -> tuple[Any, ...]:
    """Return the settings that determine the counts of a text: weighting, hashing or tokens."""
    settings, names = model.vocabulary_settings_, ("ngram_range", "lowercase", "tokenizer", "normalize")
    return model.tf, model.hashing_, settings and tuple(getattr(settings, name) for name in names)


def _join_columns(first: Any, second: Any) -> tuple[Any, tuple[IntArray, IntArray]]:
    """Return a copy of a model with the columns of two, and the positions of the columns of each."""
    merged = copy(first)
    names, other_names = (
        dict(zip(model.columns_.tolist(), model.words_ or [], strict=False)) for model in (first, second)
    )
    common = names.keys() & other_names.keys()
    n_shared = len(set(names.values()) & set(other_names.values()))
    is_same = first.hashing_ is not None or (
        n_shared == len(common) and all(names[column] == other_names[column] for column in common)
    )
    if is_same and first.n_features_in_ == second.n_features_in_:
        merged.columns_ = np.union1d(first.columns_, second.columns_)
        if first.words_ is not None:
            merged.words_ = [names.get(column) or other_names.get(column, "") for column in merged.columns_.tolist()]
        columns = merged.columns_
        return merged, (np.searchsorted(columns, first.columns_), np.searchsorted(columns, second.columns_))
    if first.hashing_ is not None or first.words_ is None or second.words_ is None:
        raise ValueError(
            f"other has {second.n_features_in_} columns, but must have the {first.n_features_in_} of this model, or "
            "both need names: fit them with terms="
        )
    # Words of the second model alone get additional columns.
    merged.words_ = list(dict.fromkeys(first.words_ + second.words_))
    n_new = len(merged.words_) - len(first.words_)
    merged.columns_ = np.append(first.columns_, first.n_features_in_ + np.arange(n_new))
    merged.n_features_in_ += n_new
    numbers = {word: number for number, word in enumerate(merged.words_)}
    return merged, (np.arange(len(first.words_)), np.array([numbers[word] for word in second.words_]))
