"""Odd texts, sentences and tags for the estimators that take them."""

import dask.bag as db
import numpy as np
import pandas as pd

from dspectral import Texts, VocabularySettings, build_corpus, build_store
from tests.bad_inputs.judging import outcome
from tests.bad_inputs.rows import pick, seeded
from tests.contracts import CASES

ODD_TEXTS = ["", " ", "\0", "a\0b", "\ud800", "\ufeff", "\u200b\u200d", "\U0001f600" * 9, "ΑΣ", "İ", "ß", "a\nb", "\r",
             "x" * 5000, "e\u0301", "\u202e", "ﬁ", "\udfff lone", "1 2", "the the", "\x85", "\u2028"]  # fmt: skip
TEXTS = {
    "odd": lambda rng, X: [ODD_TEXTS[i] for i in rng.integers(len(ODD_TEXTS), size=len(X))],
    "one odd": lambda rng, X: [*X[:-1], ODD_TEXTS[rng.integers(len(ODD_TEXTS))]],
    "empty": lambda rng, X: [],
    "all empty": lambda rng, X: [""] * len(X),
    "one": lambda rng, X: X[:1],
    "equal": lambda rng, X: X[:1] * len(X),
    "nones": lambda rng, X: [*X[:-1], None],
    "numbers": lambda rng, X: [*X[:-1], 3],
    "nan": lambda rng, X: [*X[:-1], float("nan")],
    "bytes": lambda rng, X: [str(x).encode() for x in X],
    "bad bytes": lambda rng, X: [b"\xff\xfe", *X[1:]],
    "a string": lambda rng, X: "the cat",
    "none": lambda rng, X: None,
    "number": lambda rng, X: 3,
    "dict": lambda rng, X: {"a": X},
    "set": lambda rng, X: {str(x) for x in X},
    "nested": lambda rng, X: [[x] for x in X],
    "more nested": lambda rng, X: [[[x]] for x in X],
    "array": lambda rng, X: np.array([str(x) for x in X]),
    "objects": lambda rng, X: (
        np.array([*X[:-1], None], dtype=object) if isinstance(X[0], str) else np.empty(3, object)
    ),
    "table": lambda rng, X: np.array([[str(x)] for x in X]),
    "series": lambda rng, X: pd.Series([str(x) for x in X]),
    "series with NA": lambda rng, X: pd.Series([str(x) for x in X[:-1]] + [pd.NA], dtype="string"),
    "frame": lambda rng, X: pd.DataFrame({"a": [str(x) for x in X]}),
    "matrix": lambda rng, X: np.zeros((len(X), 3)),
    "bag": lambda rng, X: db.from_sequence(X, npartitions=2),
    "bag of numbers": lambda rng, X: db.from_sequence(range(len(X)), npartitions=2),
    "object": lambda rng, X: object(),
    "tuples": lambda rng, X: [tuple(x) for x in X],
    "lists of nothing": lambda rng, X: [[] for _ in X],
    "lists of one": lambda rng, X: [["the"] for _ in X],
    "lists of odd": lambda rng, X: [[ODD_TEXTS[i] for i in rng.integers(len(ODD_TEXTS), size=4)] for _ in X],
    "lists of numbers": lambda rng, X: [[1, 2, 3] for _ in X],
    "lists of nones": lambda rng, X: [[None, "a"] for _ in X],
    "lists of nan": lambda rng, X: [[float("nan"), 1.5] for _ in X],
    "lists of lists": lambda rng, X: [[["a"], ["b"]] for _ in X],
    "lists of dicts": lambda rng, X: [[{}, {}] for _ in X],
    "arrays": lambda rng, X: [np.arange(3) for _ in X],
    "longer": lambda rng, X: [*X, *X],
    "shorter": lambda rng, X: X[:-1],
    "generator": lambda rng, X: (x for x in X),
}


def odd_texts(rng):
    """Odd texts or sentences, for fit or for what a fitted model makes of them."""
    names = [name for name, case in CASES.items() if case.kind != "rows"]
    name = names[rng.integers(len(names))]
    case = CASES[name]
    X, y = case.data()
    of_texts, odd = pick(rng, TEXTS)
    fits, of_labels = rng.random() < 0.6, case.kind == "tagged" and rng.random() < 0.5
    given = (X, odd(rng, y)) if of_labels else (odd(rng, X), y)

    def run():
        if fits:
            return outcome(lambda: case.result(case.make(**seeded(case)).fit(*given), X)).fault
        model = case.make(**seeded(case)).fit(X, y)
        return outcome(lambda: case.result(model, given[0])).fault

    return f"{name}.{'fit' if fits else 'result'}: {'tags' if of_labels else 'texts'} {of_texts}", run


def odd_store(rng):
    """A store or a corpus of odd texts, with an odd parameter now and then."""
    X, _ = CASES["NgramHashing"].data()
    of_texts, odd = pick(rng, TEXTS)
    given, number = odd(rng, X), int(rng.integers(2**60))
    parameters, shown = {}, ""
    if rng.random() < 0.4:
        parameter = ["unit", "field", "encoding", "delimiter", "block_bytes", "errors", "max_document_bytes",
                     "long_documents"][rng.integers(8)]  # fmt: skip
        value = [None, 0, -1, 2.5, "x", "", b"x", True, [], {}, float("nan"), 10**30, "line"][
            rng.integers(13)
        ]
        parameters, shown = {parameter: value}, f", {parameter}={value!r}"
    build, of_build = [
        (build_store, {}),
        (build_corpus, {}),
        (build_store, {"vocabulary": VocabularySettings()}),
        (build_store, {"keep_terms": 5}),
    ][rng.integers(4)]
    wraps = rng.random() < 0.6

    def run():
        found = outcome(
            lambda: build(
                Texts(given) if wraps else given, f"memory://bad-{number}", **of_build, **parameters
            ),
            allowed=(ValueError, TypeError, FileNotFoundError),
        )
        return found.fault

    return f"{build.__name__}({'Texts' if wraps else ''}, {list(of_build)}): {of_texts}{shown}", run


FAMILIES = [odd_texts, odd_texts, odd_store]
