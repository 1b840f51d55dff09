"""Short texts, and the pipeline that they are given to."""

import numpy as np
from sklearn.pipeline import make_pipeline

from dspectral import (
    NgramHashing,
    TfidfWeighting,
    TruncatedSVD,
)

WORDS = ["to", "be", "or", "not", "that", "is", "the", "question", "whether", "it"]
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, 3 + i % 7)) for i in range(60)]
HASHING = NgramHashing(256, (1, 2))


def pipeline(**parameters):
    return make_pipeline(HASHING, TfidfWeighting(), TruncatedSVD(3, **parameters))


def same(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert (one != other).nnz == 0
