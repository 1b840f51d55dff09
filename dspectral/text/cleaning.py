"""Rules that mask parts of a text that are not words, such as URLs, e-mail headers and timestamps."""

import re
from collections.abc import Collection
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

import numpy as np

from dspectral.types import Documents

CleanRule: TypeAlias = Literal[
    "headers", "quotes", "signatures", "markup", "urls", "users", "timestamps", "ids", "numbers"
]
CLEAN_RULES: tuple[CleanRule, ...] = get_args(CleanRule)
"""Names of the rules, in the order in which they are applied."""
MASKS: dict[str, str] = dict(zip(CLEAN_RULES, "\u2400\u2401\u2402\u2403\u2404\u2405\u2406\u2407\u2408", strict=True))
"""Token that replaces a masked part, by rule: a character that is punctuation, and never a word."""
_END = b"\x1e\n"
"""Separator of documents in the joined text."""
_LINE = rb"[^\n\t\x1e]"
_DAYS, _MONTHS = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_FIELDS = (
    rb"From|To|Cc|Bcc|Date|Sent|Sender|Reply-To|Message-I[Dd]|References|In-Reply-To|Organi[sz]ation|Lines|Path|Xref"
    rb"|Newsgroups|Distribution|Followup-To|Article-I\.D\.|Expires|Supersedes|Originator|Received|Return-Path"
    rb"|(?:MIME|Mime|Content|NNTP|Nntp|X)-[\w-]+|Von|An|Gesendet|Datum|De|Para|Fecha|\xc3\x80"
)
_PATTERNS: dict[str, tuple[bytes, ...]] = {
    "headers": (
        rb"[\n\t](?:" + _FIELDS + rb"):[ ]" + _LINE + rb"{0,300}",
        rb"[\n\t](?:Subject|Betreff|Objet|Asunto|Keywords|Summary):(?: Re:| AW:)?",
    ),
    "quotes": (
        rb"[\n\t][ ]*(?:[>|:]|\w{1,3}>)" + _LINE + rb"*",
        rb"[\n\t]" + _LINE + rb"{0,100}\b(?:wrote|writes|schrieb):?[ ]*(?=[\n\t\x1e])",
    ),
    "signatures": (rb"[\n\t]--[ ]?[\n\t][^\x1e]{0,1000}(?=\x1e)",),
    "markup": (rb"</?[A-Za-z][^<>\n\t\x1e]{0,200}>", rb"&(?:[a-z]{2,8}|#\d{2,6});"),
    "urls": (rb"(?:https?|ftp)://[^\s<>\"\x1e]+", rb"www\.[^\s<>\"\x1e]+"),
    "users": (rb"RT @\w+:?", rb"@\w[\w.-]*:?"),
    "timestamps": (
        rb"\d{4}-\d\d-\d\d(?:[T_ ]\d\d:\d\d[\d:.,]*(?:Z|[+-]\d\d:?\d\d)?)?",
        _DAYS + rb"[a-z]*,? (?:\d{1,2} )?" + _MONTHS + rb"[a-z]* +\d[\d :]+(?:GMT|UTC)?",
        _MONTHS + rb" +\d{1,2} \d\d:\d\d[\d:]*",
        rb"\d{1,2}:\d\d[\d:.,]*",
    ),
    "ids": (rb"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",),
}
_LOCAL_PART = re.sub(rb"[^\w+.-]", b"", bytes(range(128)))
"""Characters of an e-mail address before the @."""
_ID = re.compile(r"[0-9a-f]{7,}|0x[0-9a-f]+|.*\d[a-z]+\d.*|(?:\D*\d){6,}.*")
"""Tokens with letters and digits that are identifiers: hexadecimal numbers, letters between digits, six digits."""


def check_clean(clean: Collection[str] | bool) -> list[CleanRule]:
    """Return the named rules in the order of CLEAN_RULES; True is all of them.

    >>> check_clean(["urls", "headers"]), check_clean(False)
    (['headers', 'urls'], [])
    """
    names = CLEAN_RULES if clean is True else clean or ()
    if isinstance(names, str) or not set(names) <= set(CLEAN_RULES):
        raise ValueError(f"clean={clean!r:.60} must be True, False or a list of {', '.join(map(repr, CLEAN_RULES))}")
    return [rule for rule in CLEAN_RULES if rule in names]


def mask_parts(documents: Documents, rules: Collection[str]) -> Documents:
    r"""Replace each match of a rule by the rule's mask, padded with blanks to the length of the match.

    >>> tweets = Documents.from_strings(["RT @anna: see https://a.b/c?d=1 and mail b.c@d.org"])
    >>> documents = mask_parts(tweets, CLEAN_RULES)
    >>> documents.text(0).decode().split()
    ['\u2405', 'see', '\u2404', 'and', 'mail', '\u2405']
    """
    patterns = [(rule, pattern) for rule in check_clean(rules) for pattern in _PATTERNS.get(rule, ())]
    if not patterns or not documents.n_documents:
        return documents
    data, offsets = documents.data.tobytes(), documents.offsets.tolist()
    text = bytearray(b"\n" + _END.join([data[a:b] for a, b in pairwise(offsets)]) + _END)
    for rule, pattern in patterns:
        mask = MASKS[rule].encode()
        for match in re.finditer(pattern, text):
            start, stop = match.span()
            if rule == "users":  # the part of an e-mail address before the @
                prefix = text[max(0, start - 64) : start]
                start -= len(prefix) - len(prefix.rstrip(_LOCAL_PART))
            start += text[start] in b"\n\t"
            if stop - start >= len(mask):
                text[start:stop] = mask.ljust(stop - start)
    starts = np.asarray(offsets[:-1]) - offsets[0] + 1 + len(_END) * np.arange(documents.n_documents)
    masked_text = b"".join([text[a : a + n] for a, n in zip(starts.tolist(), np.diff(offsets).tolist(), strict=True)])
    return Documents(np.frombuffer(masked_text, dtype=np.uint8), documents.offsets - offsets[0])


def match_token_rule(token: str) -> str:
    """Return the rule, "ids" or "numbers", that masks a token as a whole, or an empty string.

    >>> [match_token_rule(token) for token in ("1999", "7f3a09c1", "0x1f", "req7a4b2", "mp3", "x86_64", "beef")]
    ['numbers', 'ids', 'ids', 'ids', '', '', '']
    """
    if not any(map(str.isdigit, token)):
        return ""
    if not any(map(str.isalpha, token)):
        return "numbers"
    return "ids" if _ID.fullmatch(token) else ""
