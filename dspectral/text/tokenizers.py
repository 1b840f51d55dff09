"""Tokenizers of a user's own: any function from a text to its tokens, known by an importable name."""

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from dspectral.text.cutting import cut_by_rule, find_fault
from dspectral.text.tokens import PADDING, Tokens, checked_offsets, not_utf8, prepare_text, tokenize
from dspectral.types import Documents

_BLANKS = re.compile(rb"[\x00-\x20]+")
RULES = ("words", "characters")
"""Names of the library's own tokenizers, whose words are in the form NFC."""
_GIVEN: dict[str, Callable[[str], Iterable[Any]]] = {"builtins:str.split": str.split}
"""Functions that callers of this process have given, by name: the only ones that a name in a file can mean."""


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A function from a text to its tokens, and its name; a name that a file holds is one without its function.

    It equals its name, but is no string: strings of a caller are imported, those of a file never.
    """

    name: str
    function: Callable[[str], Iterable[Any]] | None = None

    def __repr__(self) -> str:
        return repr(self.name)

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self.name == (other.name if isinstance(other, Tokenizer) else other)

    def __hash__(self) -> int:
        return hash(self.name)

    def resolved(self) -> "Tokenizer":
        """Return the tokenizer with its function, which a caller gave with it or earlier under the same name."""
        if self.function is not None or self.name in RULES:
            return self
        if self.name not in _GIVEN:
            raise ValueError(
                f"the tokenizer {self.name!r} is known by its name alone, and no function is looked up because a file "
                "names it: give the function itself, as tokenizer= of open_store, NgramHashing or VocabularySettings, "
                "as tokens= of build_corpus, or in load(..., classes=[function])"
            )
        return Tokenizer(self.name, _GIVEN[self.name])

    def cut(self, documents: Documents, *, lowercase: bool, normalize: bool = False) -> Tokens:
        r"""Cut documents into tokens, one call of the function for each, or into words by a rule of the library."""
        if self.name in RULES:
            return cut_by_rule(documents, self.name, lowercase=lowercase, normalize=True, signs=False)  # type: ignore[arg-type]
        function = self.resolved().function
        # Of a pipeline of spaCy only the first step is needed.
        call = getattr(function, "make_doc", function)
        whole = getattr(function, "gives_ngrams", False)
        documents = checked_offsets(documents)
        words: list[bytes] = []
        bounds = np.zeros(documents.n_documents + 1, dtype=np.int64)
        for i in range(documents.n_documents):
            text = _decoded(documents, i)
            text = prepare_text(text, lowercase=lowercase, normalize=normalize)
            words += self._words(call(text), i, whole=whole)  # type: ignore[misc]
            bounds[i + 1] = len(words)
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        # One more for the blank behind each word: `starts` are places in the joined text.
        np.cumsum([len(word) + 1 for word in words], out=starts[1:])
        joined = b" ".join([*words, b"\0" * PADDING])
        return Tokens.of(np.frombuffer(joined, dtype=np.uint8), starts, bounds)

    def _words(self, found: Any, document: int, *, whole: bool) -> list[bytes]:
        """Return the tokens of one document as n-grams take them, or n-grams as they are."""
        if isinstance(found, str | bytes) or not isinstance(found, Iterable):
            raise TypeError(
                f"the tokenizer {self.name!r} returned {found!r:.40} for document {document} of the block, but it "
                "must return a list of strings"
            )
        words = []
        for token in found:
            text = token if isinstance(token, str) else getattr(token, "text", None)
            if not isinstance(text, str):
                raise TypeError(
                    f"the tokenizer {self.name!r} returned the token {token!r:.40} for document {document} of the "
                    "block, but tokens must be strings"
                )
            try:
                word = (text if whole else text.strip()).encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"the tokenizer {self.name!r} returned the token {text!r:.40}, which is no text in UTF-8"
                ) from error
            # N-grams are ordered by their bytes: no byte of a word may be as small as the blank that joins words.
            if whole or word:
                words.append(word if whole else _BLANKS.sub(b"_", word))
        return words


TokenizerLike: TypeAlias = Callable[[str], Iterable[Any]] | str | dict[str, str] | Tokenizer
"""A function from a text to its tokens, its name ``"module:function"``, both, or what a store has recorded of it."""


def as_tokenizer(tokenizer: TokenizerLike | None, parameter: str = "tokenizer") -> Tokenizer | None:
    """Return a tokenizer with the name by which it is known, or None.

    >>> as_tokenizer(str.split), as_tokenizer("builtins:str.split")
    ('builtins:str.split', 'builtins:str.split')
    """
    if tokenizer is None:
        return None
    if is_record(tokenizer):
        tokenizer = tokenizer_from_record(tokenizer)
    if isinstance(tokenizer, Tokenizer):
        # Workers get the function with it.
        return tokenizer.resolved() if tokenizer.name in _GIVEN else tokenizer
    if isinstance(tokenizer, str) and tokenizer in RULES:
        return Tokenizer(tokenizer)
    if isinstance(tokenizer, str):
        try:
            function = _imported(tokenizer)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{parameter} is {tokenizer!r:.60}, but it must be a function or its name 'module:function', "
                f"'words' or 'characters' ({error})"
            ) from error
        _GIVEN[tokenizer] = function
        return Tokenizer(tokenizer, function)
    if not callable(tokenizer):
        raise TypeError(
            f"{parameter} is {tokenizer!r:.60}, but it must be a function from a text to a list of tokens"
        )
    return Tokenizer(_name_of(tokenizer, parameter), tokenizer)


def words_of(
    documents: Documents, lowercase: bool, tokenizer: TokenizerLike | None, normalize: str | None = None
) -> Tokens:
    """Cut documents into words: by scikit-learn's ``token_pattern``, by a rule of the library, or by a tokenizer."""
    # A caller's names are tokenizers by now: a bare string is from a file.
    known = as_tokenizer(Tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer)
    nfc = check_normalize(normalize)
    rule = None if known is None else known.name
    if (rule is None or rule in RULES) and (fault := find_fault(documents, rule)):  # type: ignore[arg-type]
        warnings.warn(fault, stacklevel=3)
    if known is None:
        return tokenize(documents, lowercase, nfc)
    return known.cut(documents, lowercase=lowercase, normalize=nfc)


def check_normalize(normalize: str | None) -> bool:
    """Report whether text is brought to the form NFC."""
    if normalize not in (None, "NFC"):
        raise ValueError(f"normalize is {normalize!r:.60}, but it must be 'NFC' or None")
    return normalize is not None


def give_tokenizer(tokenizer: TokenizerLike, parameter: str) -> str:
    """Let files of this process name a tokenizer that the caller gives, and return its name."""
    known = as_tokenizer(tokenizer, parameter)
    if known is None:
        raise TypeError(f"{parameter} is None, but it must be a function or its name 'module:function'")
    _GIVEN[known.name] = known.resolved().function  # type: ignore[assignment]
    return known.name


def record_tokenizer(tokenizer: Tokenizer | str) -> Any:
    """Return a tokenizer as JSON: a rule by its name, a function as ``{"name": ...}``, which is never imported."""
    name = str(tokenizer)
    return name if name in RULES else {"name": name}


def tokenizer_from_record(record: Any) -> Tokenizer | None:
    """Return the tokenizer that a file names: one without its function, or None."""
    name = record["name"] if is_record(record) else record
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the tokenizer of a file is {record!r:.60}, but it must be a name")
    return None if name is None else Tokenizer(name)


def is_record(value: Any) -> bool:
    """Report whether a value is what :func:`record_tokenizer` returned of a function."""
    return isinstance(value, dict) and value.keys() == {"name"} and isinstance(value["name"], str)


def wrap_names(value: Any) -> Any:
    """Return what a file holds with a record in place of each name of a tokenizer."""
    if isinstance(value, dict):
        return {
            key: record_tokenizer(entry)
            if isinstance(entry, str) and (key == "tokenizer" or (key == "tokens" and ":" in entry))
            else wrap_names(entry)
            for key, entry in value.items()
        }
    return [wrap_names(entry) for entry in value] if isinstance(value, list) else value


def _decoded(documents: Documents, i: int) -> str:
    text = documents.text(i)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(text, i, error.start)) from error


def _name_of(tokenizer: Callable[..., Any], parameter: str) -> str:
    qualified = getattr(tokenizer, "__qualname__", None)
    if qualified is None or isinstance(tokenizer, type):
        return _name_of_object(tokenizer, parameter)
    # Methods of built-in types, such as str.split, have no module of their own, but their type has.
    home = getattr(tokenizer, "__module__", None) or getattr(
        getattr(tokenizer, "__objclass__", None), "__module__", ""
    )
    name = f"{home}:{qualified}"
    try:
        found: Any = _imported(name)
    except (ImportError, AttributeError, ValueError):
        found = None
    # A lambda, a function within a function or one that was replaced has a name, but not one that leads back to it.
    if found is not tokenizer:
        raise ValueError(
            f"{parameter} is the function {qualified!r} without a name to import it by, which workers, later appends "
            "and saved models need: define it with def at the top of a module"
        )
    _GIVEN[name] = tokenizer
    return name


def _name_of_object(tokenizer: Callable[..., Any], parameter: str) -> str:
    """Return class, name and version of an object such as spaCy's pipeline."""
    kind = type(tokenizer)
    meta = getattr(tokenizer, "meta", None)
    known = meta if isinstance(meta, dict) else vars(tokenizer) if hasattr(tokenizer, "__dict__") else {}
    name, version = known.get("name"), known.get("version")
    if isinstance(tokenizer, type) or not (name and version):
        raise ValueError(
            f"{parameter} is {tokenizer!r:.60}, which has no name and version, but workers, later appends and saved "
            "models need a name: define a function with def at the top of a module that calls it"
        )
    language = f"{known['lang']}_" if "lang" in known else ""
    return f"{kind.__module__}:{kind.__qualname__} {language}{name} {version}"


def _imported(name: str) -> Any:
    """Import an object by its name ``"module:path.in.it"``."""
    home, colon, path = name.partition(":")
    if not (home and colon) or " " in path:
        raise ValueError("its name is not that of a function")
    found: Any = import_module(home)
    for part in path.split("."):
        found = getattr(found, part)
    return found
