"""Custom tokenizers: functions from a text to its tokens, identified by an importable name."""

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from dspectral.text.term_bytes import gather_slices
from dspectral.text.token_rules import find_tokenizer_problem, has_unspaced_script, tokenize_by_rule
from dspectral.text.tokens import PADDING, SPACE, Tokens, check_offsets, prepare_text, tokenize, utf8_error_message
from dspectral.types import Documents

_BLANKS = re.compile(rb"[\x00-\x20]+")
RULE_NAMES = ("words", "characters", "auto")
"""Names of the built-in tokenizers; the first two normalize to NFC."""
_REGISTERED: dict[str, Callable[[str], Iterable[Any]]] = {"builtins:str.split": str.split}
"""Functions passed by callers of this process, by name; names in files resolve to these only."""


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Tokenizer function and its name; the function is None for a name read from a file.

    A tokenizer equals its name but is not a string: names passed by callers are imported, names from files never are.
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

    def resolve(self) -> "Tokenizer":
        """Return the tokenizer with its function; raise a ValueError if no caller has passed the function."""
        if self.function is not None or self.name in RULE_NAMES:
            return self
        if self.name not in _REGISTERED:
            raise ValueError(
                f"the tokenizer {self.name!r} has no function, and names in files are not imported: pass the function "
                "as tokenizer= of open_store, NgramHashing or VocabularySettings, as tokens= of build_corpus, or in "
                "load(..., classes=[function])"
            )
        return Tokenizer(self.name, _REGISTERED[self.name])

    def tokenize(self, documents: Documents, *, lowercase: bool, normalize: bool = False) -> Tokens:
        r"""Tokenize documents by a built-in rule, or by one function call per document."""
        if self.name == "auto":
            return _tokenize_by_script(documents, lowercase, normalize)
        if self.name in RULE_NAMES:
            rule: Any = self.name
            return tokenize_by_rule(documents, rule, lowercase=lowercase, normalize=True, keep_signs=False)
        function = self.resolve().function
        # make_doc is the tokenizer of a spaCy pipeline.
        call = getattr(function, "make_doc", function)
        returns_ngrams = getattr(function, "gives_ngrams", False)
        cut_block: Callable[[Documents], Tokens] | None = getattr(function, "cut_block", None)
        if cut_block is not None and not normalize:
            return cut_block(documents)
        documents = check_offsets(documents)
        words: list[bytes] = []
        bounds = np.zeros(documents.n_documents + 1, dtype=np.int64)
        for i in range(documents.n_documents):
            text = _decode_document(documents, i)
            text = prepare_text(text, lowercase=lowercase, normalize=normalize)
            words += self._encode_tokens(call(text), i, returns_ngrams=returns_ngrams)  # type: ignore[misc]
            bounds[i + 1] = len(words)
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        # `starts` are offsets in the joined text, with one space after each word.
        np.cumsum([len(word) + 1 for word in words], out=starts[1:])
        joined = b" ".join([*words, b"\0" * PADDING])
        return Tokens.from_arrays(np.frombuffer(joined, dtype=np.uint8), starts, bounds)

    def _encode_tokens(self, returned: object, document: int, *, returns_ngrams: bool) -> list[bytes]:
        """Return the tokens of one document as bytes, stripped and without spaces unless they are n-grams."""
        if isinstance(returned, str | bytes) or not isinstance(returned, Iterable):
            raise TypeError(
                f"the tokenizer {self.name!r} returned {returned!r:.40} for document {document} of the block, but "
                "must return a list of strings"
            )
        words = []
        for token in returned:
            text = token if isinstance(token, str) else getattr(token, "text", None)
            if not isinstance(text, str):
                raise TypeError(
                    f"the tokenizer {self.name!r} returned the token {token!r:.40} for document {document} of the "
                    "block, but tokens must be strings"
                )
            try:
                word = (text if returns_ngrams else text.strip()).encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"the tokenizer {self.name!r} returned the token {text!r:.40}, which cannot be encoded as UTF-8"
                ) from error
            # The byte order of n-grams requires that all bytes of a word are greater than a space.
            if returns_ngrams or word:
                words.append(word if returns_ngrams else _BLANKS.sub(b"_", word))
        return words


def _tokenize_by_script(documents: Documents, lowercase: bool, normalize: bool) -> Tokens:
    """Tokenize by scikit-learn's ``token_pattern``, and documents in scripts without spaces by ``"characters"``."""
    plain, is_unspaced = tokenize(documents, lowercase, normalize), has_unspaced_script(documents)
    if not is_unspaced.any():
        return plain
    pairs = tokenize_by_rule(documents, "characters", lowercase=lowercase, normalize=True, keep_signs=False)
    ends = np.where(is_unspaced, pairs.starts[pairs.bounds[1:]] + len(plain.text), plain.starts[plain.bounds[1:]])
    starts = np.where(is_unspaced, pairs.starts[pairs.bounds[:-1]] + len(plain.text), plain.starts[plain.bounds[:-1]])
    data = gather_slices(np.concatenate([plain.text, pairs.text]), starts, ends).data
    n_tokens = np.where(is_unspaced, np.diff(pairs.bounds), np.diff(plain.bounds))
    # A space follows each token.
    token_starts = np.append(0, np.flatnonzero(data == SPACE) + 1)
    padded = np.append(data, np.zeros(PADDING, dtype=np.uint8))
    return Tokens.from_arrays(padded, token_starts, np.append(0, np.cumsum(n_tokens)))


TokenizerLike: TypeAlias = Callable[[str], Iterable[Any]] | str | dict[str, str] | Tokenizer
"""A function from a text to its tokens, its name ``"module:function"``, a `Tokenizer`, or a record of one."""


def as_tokenizer(tokenizer: TokenizerLike | None, parameter: str = "tokenizer") -> Tokenizer | None:
    """Return a named tokenizer, or None."""
    if tokenizer is None:
        return None
    if is_record(tokenizer):
        tokenizer = tokenizer_from_record(tokenizer)
    if isinstance(tokenizer, Tokenizer):
        # The function is included for workers.
        return tokenizer.resolve() if tokenizer.name in _REGISTERED else tokenizer
    if isinstance(tokenizer, str) and tokenizer in RULE_NAMES:
        return Tokenizer(tokenizer)
    if isinstance(tokenizer, str):
        try:
            function = _import_object(tokenizer)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{parameter}={tokenizer!r:.60} must be a function or its name 'module:function', 'words', "
                f"'characters' or 'auto' ({error})"
            ) from error
        _REGISTERED[tokenizer] = function
        return Tokenizer(tokenizer, function)
    if not callable(tokenizer):
        raise TypeError(f"{parameter}={tokenizer!r:.60} must be a function from a text to a list of tokens")
    return Tokenizer(_get_import_name(tokenizer, parameter), tokenizer)


def tokenize_documents(
    documents: Documents, lowercase: bool, tokenizer: TokenizerLike | None, normalize: str | None = None
) -> Tokens:
    """Tokenize documents by scikit-learn's ``token_pattern`` (None), a built-in rule or a custom tokenizer."""
    # Names passed by callers are `Tokenizer` objects here, so a string comes from a file.
    resolved_tokenizer = as_tokenizer(Tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer)
    nfc = check_normalize(normalize)
    rule = None if resolved_tokenizer is None else resolved_tokenizer.name
    if rule in (None, "words") and (fault := find_tokenizer_problem(documents, rule)):  # type: ignore[arg-type]
        warnings.warn(fault, stacklevel=3)
    if resolved_tokenizer is None:
        return tokenize(documents, lowercase, nfc)
    return resolved_tokenizer.tokenize(documents, lowercase=lowercase, normalize=nfc)


def check_normalize(normalize: str | None) -> bool:
    """Return whether text is normalized to NFC."""
    if normalize not in (None, "NFC"):
        raise ValueError(f"normalize={normalize!r:.60} must be 'NFC' or None")
    return normalize is not None


def register_tokenizer(tokenizer: TokenizerLike, parameter: str) -> str:
    """Register a tokenizer under its name, so that files can refer to it; return the name."""
    resolved_tokenizer = as_tokenizer(tokenizer, parameter)
    if resolved_tokenizer is None:
        raise TypeError(f"{parameter}=None must be a function or its name 'module:function'")
    _REGISTERED[resolved_tokenizer.name] = resolved_tokenizer.resolve().function  # type: ignore[assignment]
    return resolved_tokenizer.name


def tokenizer_to_record(tokenizer: Tokenizer | str) -> Any:
    """Return the JSON record of a tokenizer: the name of a built-in rule, or ``{"name": ...}`` for a function."""
    name = str(tokenizer)
    return name if name in RULE_NAMES else {"name": name}


def tokenizer_from_record(record: Any) -> Tokenizer | None:
    """Return the tokenizer that a JSON record names, without loading its function; None for null."""
    name = record["name"] if is_record(record) else record
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the file has the tokenizer {record!r:.60}, but it must be a name")
    return None if name is None else Tokenizer(name)


def is_record(value: object) -> bool:
    """Return whether a value is the record of a function, as :func:`tokenizer_to_record` makes it."""
    return isinstance(value, dict) and value.keys() == {"name"} and isinstance(value["name"], str)


def wrap_tokenizer_names(value: object) -> Any:
    """Return JSON content with each tokenizer name replaced by its record."""
    if isinstance(value, dict):
        return {
            key: tokenizer_to_record(entry)
            if isinstance(entry, str) and (key == "tokenizer" or (key == "tokens" and ":" in entry))
            else wrap_tokenizer_names(entry)
            for key, entry in value.items()
        }
    return [wrap_tokenizer_names(entry) for entry in value] if isinstance(value, list) else value


def _decode_document(documents: Documents, i: int) -> str:
    text = documents.text(i)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(utf8_error_message(text, i, error.start)) from error


def _get_import_name(tokenizer: Callable[..., Any], parameter: str) -> str:
    qualified = getattr(tokenizer, "__qualname__", None)
    if qualified is None or isinstance(tokenizer, type):
        return _get_object_name(tokenizer, parameter)
    # Methods of built-in types, such as str.split, have no module; their type has one.
    module_name = getattr(tokenizer, "__module__", None) or getattr(
        getattr(tokenizer, "__objclass__", None), "__module__", ""
    )
    name = f"{module_name}:{qualified}"
    try:
        imported: Any = _import_object(name)
    except (ImportError, AttributeError, ValueError):
        imported = None
    # The name of a lambda, a nested or a replaced function does not import that function.
    if imported is not tokenizer:
        raise ValueError(
            f"{parameter} is the function {qualified!r}, which cannot be imported by its name, but workers, later "
            "appends and saved models must import it: define it with def at the top level of a module"
        )
    _REGISTERED[name] = tokenizer
    return name


def _get_object_name(tokenizer: Callable[..., Any], parameter: str) -> str:
    """Return a name made of the class, name and version of an object, such as a spaCy pipeline."""
    kind = type(tokenizer)
    meta = getattr(tokenizer, "meta", None)
    resolved_tokenizer = meta if isinstance(meta, dict) else vars(tokenizer) if hasattr(tokenizer, "__dict__") else {}
    name, version = resolved_tokenizer.get("name"), resolved_tokenizer.get("version")
    if isinstance(tokenizer, type) or not (name and version):
        raise ValueError(
            f"{parameter}={tokenizer!r:.60} has no name and version, but workers, later appends and saved models need "
            "a name: define a function with def at the top level of a module that calls it"
        )
    language = f"{resolved_tokenizer['lang']}_" if "lang" in resolved_tokenizer else ""
    return f"{kind.__module__}:{kind.__qualname__} {language}{name} {version}"


def _import_object(name: str) -> Any:
    """Import an object by its name ``"module:path.in.it"``."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon) or " " in path:
        raise ValueError("it is not of the form 'module:function'")
    value: Any = import_module(module_name)
    for part in path.split("."):
        value = getattr(value, part)
    return value
