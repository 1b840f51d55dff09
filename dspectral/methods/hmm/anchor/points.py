"""Word types (frequent words and spelling classes) as points: reduced contexts and spelling features."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from dspectral.cooccurrence.scaling import ContextScaling, CountTransform
from dspectral.inputs.sequences import HoldsSentences
from dspectral.linalg.dense import eigh_descending, fix_signs
from dspectral.linalg.leading import leading_left_vectors
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.brown.pair_counts import AdjacentCounts
from dspectral.types import CSRRows, Doubles, Int32s, Int64s

Contexts: TypeAlias = Literal["clusters", "published", "consistent"]
"""How contexts become points: counts of Brown clusters of neighbors, CCA, or SVD of untransformed counts."""
N_CLUSTERS = 30
"""Clusters of neighbors, for ``contexts="clusters"``."""
MAX_ENDING = 3
"""Maximum number of letters of an ending."""
ROUNDING = 1e-20
"""Fraction of the mean square below which a variance counts as zero."""


class WordTypes(NamedTuple):
    """Word types: frequent words, followed by the names of spelling classes of rare words."""

    words: list[str]
    classes: list[str]

    @classmethod
    def from_counts(cls, words: Sequence[str], counts: Int64s, min_count: int, *, by_spelling: bool) -> "WordTypes":
        """Return the types of a vocabulary; ``by_spelling``: whether rare words form classes by spelling."""
        # Words are sorted by decreasing count, after type 0, "<?>".
        n_own = 1 + int(np.sum(np.asarray(counts[1:]) >= min_count))
        classes = spelling_classes(words[n_own:], counts[n_own:].tolist()) if by_spelling else []
        return cls(list(words[:n_own]), sorted(set(classes)))

    @property
    def n_types(self) -> int:
        """Number of words and classes."""
        return len(self.words) + len(self.classes)

    def get_own_type(self, word: str) -> int:
        """Return the type of a frequent word."""
        if word not in self.words[1:]:
            raise ValueError(
                f"the anchor {word!r} must occur at least min_count times in the corpus: choose another, or lower "
                "min_count"
            )
        return self.words.index(word, 1)

    def get_types(self, words: Sequence[str]) -> Int32s:
        """Return the type of each word."""
        type_by_word = {word: i for i, word in enumerate(self.words)}
        classes = {name: len(self.words) + i for i, name in enumerate(self.classes)}
        return np.array([_lookup_type(word, type_by_word, classes) for word in words], dtype=np.int32)

    def counts(self, corpus: HoldsSentences) -> Int64s:
        """Return the number of tokens that each type has in a corpus, shape (n_types,)."""
        # np.add.at sums repeated indices; several words may share a class.
        tokens = np.zeros(self.n_types, dtype=np.int64)
        np.add.at(tokens, self.get_types(corpus.words), np.asarray(corpus.counts))
        return tokens

    def sort_by_frequency(self, counts: Int64s) -> Int64s:
        """Return the types with tokens, by decreasing count: first words, then classes and ``"<?>"``."""
        # Words come first, as readable anchors.
        rest = np.concatenate([np.arange(len(self.words), self.n_types), [0]])
        order = np.concatenate([np.arange(1, len(self.words)), rest[np.argsort(-counts[rest], kind="stable")]])
        return order[counts[order] > 0]

    def features(self) -> CSRRows:
        """Return the spelling features of each type, shape (n_types, n_features); ``"<?>"`` has none."""
        words = (spelling(word) for word in self.words[1:])
        # Class names hold shape and ending: "<A-*ing>", or "<0>" without an ending.
        classes = (name[1:-1].partition("*")[::2] for name in self.classes)
        return make_feature_table([None, *words, *classes])


def _lookup_type(word: str, type_by_word: dict[str, int], classes: dict[str, int]) -> int:
    number = type_by_word.get(word)
    if number is None:
        number = classes.get(match_class(*spelling(word), classes), 0) if classes and word else 0
    return number


def spelling(word: str) -> tuple[str, str]:
    """Return the shape of a word and its ending.

    >>> [spelling(word) for word in ("sat", "Semi-colons", "IBM", "1990s", "...")]
    [('a', 'at'), ('A-', 'ons'), ('AA', 'bm'), ('0', ''), ('.', '')]
    """
    if any(letter.isdigit() for letter in word):
        return "0", ""
    if not any(letter.isalpha() for letter in word):
        return ".", ""
    capitals = word.isupper() and len(word) > 1
    shape = "AA" if capitals else "A" if word[0].isupper() else "a"
    # The ending excludes the first letter, so that short words share endings with longer ones.
    ending = word.lower()[max(1, len(word) - MAX_ENDING) :]
    return shape + ("-" if "-" in word[1:-1] else ""), ending


def spelling_features(shape: str, ending: str) -> list[str]:
    """Return the feature names of a spelling: one or two for its shape, and one for each suffix of its ending.

    >>> spelling_features("A-", "ons")
    ['A', '-', '*s', '*ns', '*ons']
    """
    features = ["A", "AA"] if shape.startswith("AA") else [shape[0]]
    features += ["-"] if shape.endswith("-") else []
    return features + ["*" + ending[-n:] for n in range(1, len(ending) + 1)]


def class_name(shape: str, ending: str) -> str:
    """Return the name of a spelling class: ``<a*ing>`` for lower-case words that end in "ing"."""
    return f"<{shape}*{ending}>" if ending else f"<{shape}>"


def spelling_classes(words: Sequence[str], counts: Iterable[int], *, min_tokens: int = 20) -> list[str]:
    """Return the class of each word: its longest ending with ``min_tokens`` tokens, or else its shape.

    >>> spelling_classes(["going", "sing", "thing", "1989", "odd"], [4, 3, 3, 1, 1], min_tokens=7)
    ['<a*ing>', '<a*ing>', '<a*ing>', '<0>', '<a>']
    """
    spelled = [spelling(word) for word in words]
    tokens: Counter[tuple[str, str]] = Counter()
    for (shape, ending), count in zip(spelled, counts, strict=True):
        for n in range(1, len(ending) + 1):
            tokens[shape, ending[-n:]] += count
    # Rarer endings have too few tokens for an estimate of their contexts.
    frequent = {class_name(*key): 0 for key, count in tokens.items() if count >= min_tokens}
    return [match_class(shape, ending, frequent) or class_name(shape, "") for shape, ending in spelled]


def match_class(shape: str, ending: str, classes: Mapping[str, int]) -> str:
    """Return the existing class of the longest ending, else that of the shape, else an empty string."""
    for n in range(len(ending), -1, -1):
        name = class_name(shape, ending[len(ending) - n :])
        if name in classes:
            return name
    return ""


def make_feature_table(spellings: Sequence[tuple[str, str] | None]) -> CSRRows:
    """Return the binary features of each spelling, shape (n_types, n_features); None is a row of zeros."""
    numbers: dict[str, int] = {}
    starts, columns = np.zeros(len(spellings) + 1, dtype=np.int64), []
    for i, spelled in enumerate(spellings):
        features = spelling_features(*spelled) if spelled is not None else []
        columns += sorted(numbers.setdefault(feature, len(numbers)) for feature in features)
        starts[i + 1] = len(columns)
    indices: Int32s = np.array(columns, dtype=np.int32)
    return sparse.csr_array((np.ones(len(indices)), indices, starts), shape=(len(spellings), max(len(numbers), 1)))


class NeighborCounts(NamedTuple):
    """Counts of adjacent types, and of the tokens of each type, shape (n_types,)."""

    pairs: AdjacentCounts
    counts: Int64s

    @property
    def first(self) -> Doubles:
        """Number of sentences that begin with each type."""
        return np.asarray(self.counts - self.pairs.n_preceding, dtype=np.float64)

    @property
    def last(self) -> Doubles:
        """Number of sentences that end with each type."""
        return np.asarray(self.counts - self.pairs.n_following, dtype=np.float64)

    def count_contexts(self, groups: CSRRows) -> CSRRows:
        """Return counts of neighbors by group and of sentence ends, (n_types, n_groups + 1) for each side."""
        # hstack from COO keeps the entries of a row in column order, so that sums have one order.
        first, last = sparse.coo_array(self.first[:, None]), sparse.coo_array(self.last[:, None])
        following, preceding = self.pairs.times(groups)
        counts = sparse.hstack([preceding, first, following, last], format="csr")
        counts.eliminate_zeros()
        return counts


def compute_word_points(
    neighbor_counts: NeighborCounts,
    features: "CSRRows | None",
    contexts: Contexts,
    n_dimensions: int,
    spelling: float,
    random_state: int,
) -> Doubles:
    """Return a point for each type from its contexts and, weighted by ``spelling``, its spelling features."""
    parts = [(compute_context_points(neighbor_counts, contexts, n_dimensions, random_state), 1.0)]
    if features is not None:
        marks = compute_spelling_points(features, neighbor_counts.counts, 2 * n_dimensions, random_state)
        parts.append((marks, spelling))
    points = join_points(parts, neighbor_counts.counts, n_dimensions)
    # Points have mean 0 over tokens, which is the point of a type without tokens.
    return np.where(neighbor_counts.counts[:, None] > 0, points, 0.0)


def compute_context_points(
    neighbor_counts: NeighborCounts, contexts: Contexts, n_dimensions: int, random_state: int
) -> Doubles:
    """Return a point for each type from its neighbors, shape (n_types, n_coordinates)."""
    clustered = contexts == "clusters"
    transform: CountTransform = "none" if contexts == "consistent" else "sqrt"
    n_types = len(neighbor_counts.counts)
    # Counts by cluster are few columns and need no further reduction; counts by type do.
    groups = cluster_groups(neighbor_counts, random_state) if clustered else sparse.eye_array(n_types).tocsr()
    counts = neighbor_counts.count_contexts(sparse.csr_array(groups))
    columns = np.asarray(counts.sum(axis=0), dtype=np.float64)
    # "reg" divides each row by its transformed sum, an estimate of the distribution of contexts.
    rows = ContextScaling.from_column_sums(columns, transform=transform, scaling="reg").apply(counts)
    if clustered:
        return np.asarray(rows.toarray(), dtype=np.float64)
    if contexts == "consistent":
        return project_leading(rows, neighbor_counts.counts, n_dimensions, random_state)
    # CCA: left singular vectors times singular values of T(counts), scaled by the square roots of both sums, are the
    # projected rows times the square root of their row sum, which is divided out.
    scaling = ContextScaling.from_column_sums(columns, transform=transform, scaling="cca")
    scaled = scaling.apply(counts).astype(np.float64)
    sizes = np.sqrt(scaling.transform_counts(counts.sum(axis=1)))
    vectors, values = leading_left_vectors(
        lambda: [scaled], scaled.shape, scaled.dtype, n_dimensions, random_state=random_state
    )
    return vectors * values / np.where(sizes > 0, sizes, 1.0)[:, None]


def cluster_groups(neighbor_counts: NeighborCounts, random_state: int) -> CSRRows:
    """Return the indicator of the cluster of each type, shape (n_types, n_clusters)."""
    n_types = len(neighbor_counts.counts)
    # There are at most as many clusters as words with a neighbor.
    n_neighbor_types = int(np.sum(neighbor_counts.pairs.n_following + neighbor_counts.pairs.n_preceding > 0))
    n_clusters = max(1, min(N_CLUSTERS, n_neighbor_types))
    brown = SpectralBrownClustering(n_clusters, random_state=random_state)
    labels = brown.clusters(neighbor_counts.pairs, neighbor_counts.counts)
    ones = np.ones(n_types)
    return sparse.csr_array((ones, labels, np.arange(n_types + 1)), shape=(n_types, int(labels.max()) + 1))


def project_leading(rows: CSRRows, counts: Int64s, k: int, random_state: int) -> Doubles:
    """Return the projection of rows on their leading right singular vectors, each row weighted by its count."""
    # Scaling by square roots of counts weights each type by its tokens in least squares.
    weights = np.sqrt(counts)
    scaled = sparse.csr_array(sparse.diags_array(weights) @ rows)
    vectors, values = leading_left_vectors(lambda: [scaled], scaled.shape, scaled.dtype, k, random_state=random_state)
    return vectors * values / np.where(weights > 0, weights, 1.0)[:, None]


def compute_spelling_points(features: CSRRows, counts: Int64s, k: int, random_state: int) -> Doubles:
    """Return a point for each type from its spelling: unit rows, projected on leading singular vectors."""
    # Features are ones, so the norm of a row is the square root of their number.
    sizes = np.sqrt(np.diff(features.indptr))
    rows = sparse.csr_array(sparse.diags_array(1.0 / np.where(sizes > 0, sizes, 1.0)) @ features)
    return project_leading(rows, counts, k, random_state)


def join_points(parts: list[tuple[Doubles, float]], counts: Int64s, n_dimensions: int) -> Doubles:
    """Return the principal components of concatenated, scaled points (n_types, d_i)."""
    # Means and variances are over tokens, so that noisy rare types do not determine the scale.
    share = counts / counts.sum()
    columns = []
    for points, weight in parts:
        centered = points - share @ points
        variance, size = (float(share @ np.einsum("ij,ij->i", x, x)) for x in (centered, points))
        columns.append(centered * (weight / np.sqrt(variance) if variance > ROUNDING * size else 0.0))
    whole = np.concatenate(columns, axis=1)
    # The second-moment matrix is small: (sum of all d_i)^2 numbers.
    _, axes = eigh_descending(whole.T @ (share[:, None] * whole))
    return whole @ fix_signs(axes[:, :n_dimensions].T).T
