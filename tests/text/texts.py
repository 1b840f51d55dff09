"""Texts that are hard to cut into words, for the tests of this folder."""

# ruff: noqa: RUF001  (letters that look like others are what is tested)

from hypothesis import strategies as st

# Each is a rule that a tokenizer may forget: single letters, digits and underscores, apostrophes and dashes,
# letters that combine, no spaces, other planes, case that grows, shrinks, or depends on the neighbours.
NASTY = [
    "",
    " ",
    "a",
    "a b c",
    "ab",
    "It was a dark and stormy night; the rain fell in torrents.",
    "don’t — “can’t”, e-mail, snake_case __init__ 3.14 1e9 x2 2x _ __",
    "naïve café CAFÉ Ünïcödé e\u0301te\u0301 \u0130stanbul İİ DIŞ ışık",
    "ΑΣ ΣΑ Σ ΑΣΑ ΣΣ ΟΔΥΣΣΕΥΣ ΑΣ\u0301 ΑΣ.Α ΑΣ1 1Σ",
    "\u023a\u023a \u023e\u023e \u212a\u212a \u2126\u2126 ẞẞ ßß ǅǅ ﬁﬁ Ⅷ ⅷⅷ",
    "²³ ½¾ ٣٤ ४५ 𝟘𝟙 ①② 𝔘𝔫𝔦 𐐀𐐁 🙂🙂 a🙂b 中文字 日本語テキスト 한국어 ไทยไทย",
    "zero\x00byte tab\ttab line\nline \r\n \x0b \x1c \x85 \xa0 \u2028 \ufeffbom",
    "\u200dzwj\u200d soft\xadhyphen",
    "the the the the",
    "1b0chg",  # whose hash is -2**31, the one that has no absolute value
    "word " * 3000,
    "x" * 5000,
]

LETTERS = "abzABZ09_ \t\n'’—éÉßẞİıΣσςΑǅﬁ²½٣漢字\u0301\u200d𐐀𝟘🙂\x00"
WORDS = ["to", "be", "or", "not", "Σας", "日本", "a"]


def texts(max_size=60):
    """Text of any code points, or of few letters so that n-grams come again."""
    anything = st.characters(exclude_categories=["Cs"])
    return st.one_of(
        st.text(anything, max_size=max_size),
        st.text(st.sampled_from(LETTERS), max_size=max_size),
        st.lists(st.sampled_from(WORDS), max_size=max_size // 3).map(" ".join),
        st.sampled_from(NASTY),
    )


def documents(max_documents=6):
    """Lists of texts."""
    return st.lists(texts(), max_size=max_documents)


def ngram_ranges():
    """All ranges of n-gram lengths."""
    return st.sampled_from([(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)])
