"""Tokens of sentences: cut as Python and Unicode cut them, in twenty scripts and by one rule at every door."""

import re
from itertools import groupby, pairwise
from unicodedata import normalize

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral import NgramHashing, Texts, Topics, VocabularySettings, build_corpus, build_store
from dspectral.text.term_index import TermIndex
from dspectral.text.token_rules import count_unspaced, word_pattern
from dspectral.text.tokens import PADDING
from dspectral.text.words import count_words, look_up_words, tokenize_sentences
from dspectral.types import Documents
from tests.text.scripts import LINES, UNSPACED

TEXTS = st.lists(st.text("abA é_'\u2019,.\tÉΣ\u4e2d\x85\u2003-", max_size=14), max_size=6)
LETTERS = "aE é,Σİ\u0915\u0937'1\u1100\u1161\u11a8\u212b\u0e19"
MARKS = "\u0301\u0327\u093c\u094d\u200d\u200c\u00ad\ufeff\u0e49"
MARKED = st.lists(st.text(LETTERS + MARKS, max_size=14), max_size=6)


def words_of(text, cut, *, lowercase):
    text = text.lower() if lowercase else text
    return text.split() if cut == "blanks" else re.findall(r"\w+(?:['\u2019]\w+)*|[^\w\s]", text)


def by_unicode(text):
    """Words by the classes of `regex`: characters with their marks and joiners; format characters are left out."""
    text = regex.sub(r"[\p{Cf}--[\u200b-\u200d]]", "", text, flags=regex.V1)
    text = regex.sub(r"(?<![^\s])[\p{M}\u200d\u200c]+", "", text)
    letter, marks = r"[\p{L}\p{N}_]", r"[\p{M}\u200d\u200c]*+"
    word = rf"(?:{letter}{marks})++"
    signs = rf"[^\w\s](?:[\p{{M}}\u200c]*+\u200d{marks}[^\w\s])*+{marks}"
    return regex.findall(rf"{word}(?:['\u2019]{marks}(?={letter}){word})*+|{signs}", text)


def as_lists(tokens):
    whole, starts = tokens.text[:-PADDING].tobytes(), tokens.starts
    words = [whole[a : b - 1].decode() for a, b in pairwise(starts)]
    return [words[a:b] for a, b in pairwise(tokens.bounds)]


def cut_one(text, cut="words", **options):
    return as_lists(tokenize_sentences(Documents.from_strings([text]), cut, **options))[0]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(texts=TEXTS, cut=st.sampled_from(["blanks", "words"]), lowercase=st.booleans())
def test_sentences_are_cut_as_python_does(texts, cut, lowercase):
    expected = [words_of(text, cut, lowercase=lowercase) for text in texts]
    for normalized in (False, True):
        tokens = tokenize_sentences(Documents.from_strings(texts), cut, lowercase=lowercase, normalize=normalized)
        assert as_lists(tokens) == expected


@settings(max_examples=300, deadline=None, derandomize=True)
@given(texts=MARKED, lowercase=st.booleans())
def test_marks_are_cut_and_normalized_as_unicode_says(texts, lowercase):
    lowered = [text.replace("İ", "i").lower() if lowercase else text for text in texts]
    expected = [by_unicode(text) for text in lowered]
    assert as_lists(tokenize_sentences(Documents.from_strings(texts), "words", lowercase=lowercase)) == expected
    forms = [normalize("NFC", text) for text in lowered]
    tokens = tokenize_sentences(Documents.from_strings(texts), "words", lowercase=lowercase, normalize=True)
    assert as_lists(tokens) == [by_unicode(text) for text in forms]


def test_dotted_and_dotless_i_are_those_of_turkish_text():
    texts = ["İlk IŞIK \u0131l\u0131k", "Is İzmir big? I think it is", "I am"]
    tokens = as_lists(tokenize_sentences(Documents.from_strings(texts), "words", lowercase=True))
    english = ["is", "izmir", "big", "?", "i", "think", "it", "is"]
    assert tokens == [["ilk", "\u0131ş\u0131k", "\u0131l\u0131k"], english, ["i", "am"]]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_line_of_each_script_is_cut_into_its_words(name, form):
    text = normalize(form, LINES[name])
    words = [word for word in cut_one(text, normalize=True) if any(map(str.isalnum, word))]
    bare = regex.sub(r"[^\w\s\p{M}\u200c\u200d'\u2019]", " ", normalize("NFC", text).replace("\u180e", ""))
    assert words == bare.split()
    # No cluster of letter and marks is cut.
    clusters = regex.findall(r"\X", "".join(words))
    assert "".join(words) == "".join(clusters)
    assert all(regex.match(r"\X", word)[0] in clusters for word in words)
    assert word_pattern().findall(normalize("NFC", text).replace("\u180e", "")) == words


def units_of(text):
    """Runs of hiragana, and letters with what is written around them: vowels, stacked and final consonants."""
    marks, before, behind = r"[\p{M}ー]*", "[เ-ไເ-ໄ]", "[ะาำๅະາຳ]"
    stacked = rf"(?:{before}|\w(?:{marks}[\u1039\u17d2]))*"
    return regex.findall(rf"[\p{{Hiragana}}ー]+|{stacked}\w(?:\p{{M}}|{behind}|\w\u1037?\u103a)*", text)


def is_kana(unit):
    return bool(regex.match(r"\p{Hiragana}", unit))


@pytest.mark.parametrize("name", UNSPACED)
def test_a_script_without_blanks_becomes_pairs_of_units_and_runs_of_kana(name, tmp_path):
    text = normalize("NFC", UNSPACED[name])
    units = units_of(text)
    assert "".join(units) == text
    pairs = []
    for kana, group in groupby(units, is_kana):
        run = list(group)
        pairs += run if kana or len(run) == 1 else map("".join, pairwise(run))
    assert cut_one(text, "characters", normalize=True) == pairs
    assert count_unspaced(text) == len(regex.findall(r"(?V1)[\w--\p{M}]", text))
    for tokens in ("words", "language"):
        corpus = build_corpus(Texts([text, "one two"]), str(tmp_path / tokens), tokens=tokens, min_count=1)
        assert corpus.provenance["corpus"]["tokens"] == "characters"
        assert set(corpus.words) == {*pairs, "<?>", "one", "two"}
    topics = Topics(2, min_df=1, max_df=1.0).fit([text, "one two", text])
    assert set(topics.words_) == {*pairs, "one", "two"}
    assert topics.transform([text]).sum() == pytest.approx(1)


def test_words_of_a_script_without_blanks_that_stand_apart_stay_whole(tmp_path):
    parted = ["私 は 大学 で 学ん で い ます", "東京 タワー へ 行く"]
    corpus = build_corpus(Texts(parted), str(tmp_path / "c"))
    assert set(corpus.words) - {"<?>"} == set(" ".join(parted).split())
    assert corpus.provenance["corpus"]["tokens"] == "words"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auf\u00adge\u00adben \ufeffword wo\u2060rd \u200erl", ["aufgeben", "word", "word", "rl"]),
        ("zero\u200bwidth བོད་ཡིག", ["zero", "width", "བོད", "ཡིག"]),
        (" \u0301a \u200d b\u200d", ["a", "b\u200d"]),
        (
            "don't l\u2019e\u0301te\u0301 'x' rock'n'roll d'",
            ["don't", "l\u2019été", "'", "x", "'", "rock'n'roll", "d", "'"],
        ),
        ("col·lecció · צה״ל", ["col·lecció", "·", "צה״ל"]),
        (
            "👩\u200d💻👍🏽❤\ufe0f 🇩🇪🇫🇷1\ufe0f\u20e3!?",
            ["👩\u200d💻", "👍🏽", "❤\ufe0f", "🇩🇪", "🇫🇷", "1\ufe0f\u20e3", "!", "?"],
        ),
        (
            "コンピュータとらーめん Tシャツ 3つ",
            ["コンピュータ", "とらーめん", "Tシャツ", "3", "つ"],
        ),
        ("食べ物を東京都で食べた", ["食", "べ", "物", "を", "東京", "京都", "で", "食", "べた"]),
        ("ปี๒๕๖๗นี้", ["ปี", "๒๕๖๗", "นี้"]),
        ("ประเทศไทย ไป ะ าก", ["ประ", "ระเท", "เทศ", "ศไท", "ไทย", "ไป", "ะ", "าก"]),
        ("မြန်မာနိုင်ငံ a", ["မြန်မာ", "မာနိုင်", "နိုင်ငံ", "a"]),
        ("ខ្ញុំស្រលាញ់កម្ពុជា", ["ខ្ញុំស្រ", "ស្រលា", "លាញ់", "ញ់ក", "កម្ពុ", "ម្ពុជា"]),
        ("အက္ခရာ ไ1", ["အက္ခ", "က္ခရာ", "ไ", "1"]),
        ("don't stop, it's Linux系", ["don't", "stop", ",", "it's", "Linux", "系"]),
    ],
)
def test_joiners_signs_and_runs_of_scripts(text, expected):
    assert cut_one(text, "characters", normalize=True) == expected


def test_every_door_cuts_by_the_same_rule(tmp_path):
    texts = [line.replace("\u200b", " ") for line in LINES.values()]
    corpus = build_corpus(Texts(texts), str(tmp_path / "c"))
    words = {word for word in corpus.words if any(map(str.isalnum, word))}
    assert set(Topics(2, min_df=1, max_df=1.0).fit(texts).words_) == words
    rule = VocabularySettings(tokenizer="words")
    store = build_store(Texts(texts), str(tmp_path / "v"), vocabulary=rule)
    assert set(store.vocabulary.terms) == words
    assert store.provenance["vocabulary"]["tokenizer"] == "words"
    hashing = NgramHashing(2**16, (1, 1), tokenizer="words")
    kept = hashing.kept_terms(texts)
    assert {kept.table.term(i) for i in range(len(kept.columns))} == words
    hashed = build_store(Texts(texts), str(tmp_path / "h"), hashing=hashing)
    decomposed = [normalize("NFD", text) for text in texts]
    assert hashed.hashing == hashing.settings
    assert (hashing.transform(decomposed) != hashing.transform(texts)).nnz == 0


def test_normalization_is_asked_for_where_bits_are_those_of_scikit_learn(tmp_path):
    composed, apart = "café crème", normalize("NFD", "café crème")
    plain, nfc = NgramHashing(2**10, (1, 1)), NgramHashing(2**10, (1, 1), normalize="NFC")
    assert (nfc.transform([composed]) != plain.transform([composed])).nnz == 0
    assert (nfc.transform([apart]) != nfc.transform([composed])).nnz == 0
    assert (plain.transform([apart]) != plain.transform([composed])).nnz
    store = build_store(Texts([apart]), str(tmp_path / "s"), hashing=nfc)
    assert store.hashing == nfc.settings
    words = build_store(Texts([apart]), str(tmp_path / "v"), vocabulary=VocabularySettings(normalize="NFC"))
    assert sorted(words.vocabulary.terms) == ["café", "crème"]
    assert build_corpus(Texts([apart]), str(tmp_path / "c"), tokens="blanks").words[1:] == ["café", "crème"]
    kept = build_corpus(Texts([apart]), str(tmp_path / "d"), normalize=None)
    assert kept.words[1:] == sorted(apart.split())
    with pytest.raises(ValueError, match=r"normalize.*NFC"):
        NgramHashing(normalize="nfc").fit()


@pytest.mark.parametrize(
    ("name", "tokenizer", "match"),
    [
        ("Devanagari", None, "combining.*tokenizer='words'"),
        ("Arabic", None, "combining"),
        ("Thai", None, "tokenizer='"),
        ("Chinese", None, "tokenizer='characters'"),
        ("Japanese", "words", "tokenizer='characters'"),
    ],
)
def test_words_that_a_rule_cuts_to_nonsense_are_warned_of(name, tokenizer, match):
    text = {**LINES, **UNSPACED}[name]
    with pytest.warns(UserWarning, match=match):
        NgramHashing(2**8, tokenizer=tokenizer).transform([text] * 80)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [*LINES, *UNSPACED])
def test_the_rule_for_a_script_does_not_warn(name):
    tokenizer, text = ("words", LINES[name]) if name in LINES else ("characters", UNSPACED[name])
    NgramHashing(2**8, tokenizer=tokenizer).transform([text] * 80)
    NgramHashing(2**8).transform(["Plain text with \u201cquotes\u201d, naïve café words"] * 80)


@pytest.mark.filterwarnings("error")
def test_short_documents_without_spaces_are_no_long_words():
    NgramHashing(2**8, tokenizer="words").transform(["\u6771\u4eac", "\u4eac\u90fd\u5e02"] * 200)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(texts=TEXTS)
def test_words_are_counted_and_numbered(texts):
    tokens = tokenize_sentences(Documents.from_strings(texts))
    table = count_words(tokens)
    terms = [table.term(i) for i in range(len(table.counts))]
    split = [text.split() for text in texts]
    flat = [word for words in split for word in words]
    assert terms == sorted(set(flat), key=str.encode)
    assert table.counts.tolist() == [flat.count(term) for term in terms]
    assert table.document_frequency.tolist() == [sum(term in words for words in split) for term in terms]
    known = ["<?>", *terms[1:]]
    sentences = look_up_words(tokens, TermIndex.from_terms(Documents.from_strings(known)))
    assert sentences.ids.tolist() == [known.index(word) if word in known else 0 for word in flat]
    assert sentences.n_sentences == len(texts)


LINE = "M86QU92!O9B!A(&QO;F<@;&EN92!O9B!T97AT('1H870@:7,@96YC;V1E9"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a {} b"], ["a \u241a b"]),
        (["{}", "it"], ["\u241a", "it"]),
        (["A1b2" * 9, "C3d4" * 9], ["A1b2" * 9, "C3d4" * 9]),
        (["https://" + "word/" * 20, "=" * 60, "x" * 99, "\u00e9" * 60], None),
    ],
    ids=["line", "whole", "side by side", "language"],
)
def test_strings_that_are_no_language_are_one_token_within_a_document(texts, expected):
    given = [text.format(LINE) for text in texts]
    tokens = tokenize_sentences(Documents.from_strings(given), "language")
    plain = tokenize_sentences(Documents.from_strings(given if expected is None else expected), "words")
    assert [tokens.text.tobytes(), tokens.bounds.tolist()] == [plain.text.tobytes(), plain.bounds.tolist()]
