"""Arguments of scikit-learn's vectorizers on our hashing, against scikit-learn itself."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

from dspectral import (
    NgramHashing,
    TextFiles,
    TfidfWeighting,
    TruncatedSVD,
    build_store,
    load,
    open_store,
    save,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*combining marks")
PIECES = [
    "Œuvre",
    "naïve",
    "CAFÉ",
    "don't",
    "x",
    "42",
    "the",
    "of",
    "ice-cream",
    "İstanbul",
    "नमस्ते",
    "e\u0301t\u00e9",
    "A_b",
]
BLANKS = [" ", "  ", "\n", "\t ", ", ", "\u00a0"]


def texts(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return [
        "".join(p for _ in range(rng.integers(0, 9)) for p in (rng.choice(PIECES), rng.choice(BLANKS)))
        for _ in range(n)
    ]


def letters(text):
    return list(text.replace("e", " e "))


def shout(text):
    return text.upper() + " !"


def halves(text):
    return [text[: len(text) // 2], text[len(text) // 2 :], ""]


CHOSEN = [
    {"stop_words": "english"},
    {"stop_words": ["the", "café", "don"], "ngram_range": (1, 4)},
    {"stop_words": {"the", "of"}, "strip_accents": "unicode"},
    {"token_pattern": r"[^\W\d]+"},
    {"token_pattern": r"(\w)\w*", "ngram_range": (2, 3), "lowercase": False},
    {"token_pattern": r"\w*"},
    {"strip_accents": "ascii"},
    {"strip_accents": shout},
    {"analyzer": "char", "ngram_range": (1, 5)},
    {"analyzer": "char", "ngram_range": (3, 3), "lowercase": False, "strip_accents": "unicode"},
    {"analyzer": "char_wb", "ngram_range": (2, 6)},
    {"analyzer": "char_wb", "preprocessor": shout, "alternate_sign": False},
    {"analyzer": halves},
    {"tokenizer": letters, "stop_words": ["e", "x"], "ngram_range": (1, 2)},
    {"tokenizer": "tests.preprocessing.test_analyzers:letters", "strip_accents": "ascii"},
    {"preprocessor": shout, "ngram_range": (1, 2)},
]


def theirs(given, n_features=256):
    given = {"ngram_range": (1, 1), **given}
    if "tokenizer" in given:  # NgramHashing drops empty tokens
        given["tokenizer"] = lambda text: [letter for letter in letters(text) if letter.strip()]
    given |= {"stop_words": sorted(given["stop_words"])} if isinstance(given.get("stop_words"), set) else {}
    return HashingVectorizer(n_features=n_features, norm=None, dtype=np.float32, **given)


def same(one, other):
    assert one.shape == other.shape
    assert abs(sparse.csr_array(one) - sparse.csr_array(other)).nnz == 0


@pytest.mark.filterwarnings("ignore:(Your stop_words|The parameter)")
@pytest.mark.parametrize("given", CHOSEN)
def test_columns_and_signs_are_scikit_learns_in_memory_and_out_of_core(given, tmp_path):
    hashing, expected = NgramHashing(256, **given), theirs(given)
    same(hashing.fit_transform(texts()), expected.transform(texts()))
    assert clone(hashing).settings == hashing.settings == pickle.loads(pickle.dumps(hashing)).settings  # noqa: S301
    lines = [" ".join(text.split()) for text in texts()]
    (tmp_path / "lines.txt").write_text("\n".join(line or "-" for line in lines), encoding="utf-8")
    lines = [line or "-" for line in lines]
    files = TextFiles(str(tmp_path / "lines.txt"))
    same(hashing.transform(files).compute(), expected.transform(lines))
    store = build_store(str(tmp_path / "lines.txt"), str(tmp_path / "store"), hashing=hashing)
    again = open_store(str(tmp_path / "store"))
    assert again.hashing == hashing.settings == store.hashing
    assert hashing.transform(again) is again
    same(again.counts.compute(), expected.transform(lines))
    same(again.count(lines), expected.transform(lines))
    with pytest.raises(ValueError, match="n_features=256"):
        NgramHashing(256).transform(again)


def test_a_pipeline_with_an_analyzer_is_saved(tmp_path):
    model = make_pipeline(
        NgramHashing(2**10, (2, 4), analyzer="char_wb", strip_accents="ascii", stop_words=None),
        TfidfWeighting(tf="sublinear", unseen="keep"),
        TruncatedSVD(2),
    ).fit(texts())
    save(model, str(tmp_path / "model"))
    same_model = load(str(tmp_path / "model"))
    np.testing.assert_array_equal(same_model.transform(texts(9, 1)), model.transform(texts(9, 1)))
    assert same_model.get_params()["tfidfweighting__unseen"] == "keep"


@pytest.mark.parametrize("given", [{"normalize": "NFC"}, {"tokenizer": "words"}], ids=str)
def test_stop_words_are_normalized_as_the_text_is(given):
    hashing = NgramHashing(2**16, stop_words=["the\u0301", "of"], **given)
    actual = hashing.transform(["th\u00e9 cats of the\u0301", "dogs"])
    assert actual.sum(axis=1).tolist() == NgramHashing(2**16).transform(["cats", "dogs"]).sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stop_words": "French"}, "stop_words='French'.*'english'"),
        ({"analyzer": "char", "stop_words": ["the"]}, "stop_words=.*analyzer='char'"),
        ({"analyzer": "char_wb", "token_pattern": "x"}, "token_pattern="),
        ({"analyzer": "char", "tokenizer": letters}, "tokenizer="),
        ({"tokenizer": letters, "token_pattern": "x"}, "token_pattern=.*tokenizer"),
        ({"analyzer": halves, "ngram_range": (1, 2)}, "ngram_range="),
        ({"analyzer": lambda text: [text]}, "name"),
    ],
)
def test_what_scikit_learn_would_ignore_or_refuse_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        NgramHashing(256, **given).fit()
