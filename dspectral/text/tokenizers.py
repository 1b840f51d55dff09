"""Tokenizers of a user's own: any function from a text to its tokens, known by an importable name."""

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from dspectral.text.tokens import PADDING, Tokens, checked_offsets, not_utf8, tokenize
from dspectral.types import Documents

_BLANKS = re.compile(rb"[\x00-\x20]+")


@dataclass(frozen=True)
class Tokenizer:
    """A function from a text to its tokens, and the name by which stores and saved models know it.

    Two of the same name are equal.

    Attributes
    ----------
    name : str
        ``"module:function"``, or the class, name and version of a tokenizer that is an object.
    function : callable or None, default=None
        The function itself; None until it is imported by its name.
    """

    name: str
    function: Callable[[str], Iterable[Any]] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return repr(self.name)

    def resolved(self) -> "Tokenizer":
        """Return the tokenizer with its function, found by its name in what is imported already.

        Returns
        -------
        Tokenizer
            The same name; the function is not None.

        Raises
        ------
        ValueError
            If the module of the function is not imported. The name comes from a file, and nothing is imported, nor a
            function of the standard library called, because a file names it.

        Examples
        --------
        >>> Tokenizer("builtins:str.split").resolved().function("to be")
        ['to', 'be']
        """
        if self.function is not None:
            return self
        home = self.name.partition(":")[0]
        known = home in sys.modules and home.partition(".")[0] not in sys.stdlib_module_names
        if known or self.name.startswith("builtins:str."):
            with suppress(AttributeError, ValueError):
                return Tokenizer(self.name, _imported(self.name))
        raise ValueError(
            f"the tokenizer {self.name!r} is not imported here, and nothing is imported because a file names it: "
            "import its module, or give the tokenizer itself as tokenizer="
        )

    def cut(self, documents: Documents, *, lowercase: bool) -> Tokens:
        r"""Cut documents into tokens, one call of the function for each.

        Parameters
        ----------
        documents : Documents
            UTF-8 text.
        lowercase : bool
            Whether the case of the text is lowered before the function gets it.

        Returns
        -------
        Tokens
            The tokens of all documents. Those without a letter are left out, and blanks inside a token become
            ``"_"``, because n-grams join tokens by blanks.

        Raises
        ------
        ValueError
            If a document is not UTF-8, or a token cannot be written in UTF-8.
        TypeError
            If the function returns anything but strings, or tokens with a string ``text``.

        Examples
        --------
        >>> as_tokenizer(str.split).cut(Documents.of(["It's a I"]), lowercase=True).text[:-8].tobytes()
        b"it's a i "
        """
        function = self.resolved().function
        # Of a pipeline of spaCy only the first step is needed.
        call = getattr(function, "make_doc", function)
        documents = checked_offsets(documents)
        words: list[bytes] = []
        bounds = np.zeros(documents.n_documents + 1, dtype=np.int64)
        for i in range(documents.n_documents):
            text = _decoded(documents, i)
            words += self._words(call(text.lower() if lowercase else text), i)  # type: ignore[misc]
            bounds[i + 1] = len(words)
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        # One more for the blank behind each word: `starts` are places in the joined text.
        np.cumsum([len(word) + 1 for word in words], out=starts[1:])
        joined = b" ".join([*words, b"\0" * PADDING])
        return Tokens.of(np.frombuffer(joined, dtype=np.uint8), starts, bounds)

    def _words(self, found: Any, document: int) -> list[bytes]:
        """Return the tokens of one document as n-grams take them."""
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
                word = text.strip().encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"the tokenizer {self.name!r} returned the token {text!r:.40}, which is no text in UTF-8"
                ) from error
            # N-grams are ordered by their bytes: no byte of a word may be as small as the blank that joins words.
            if word:
                words.append(_BLANKS.sub(b"_", word))
        return words


TokenizerLike: TypeAlias = Callable[[str], Iterable[Any]] | str | Tokenizer
"""A function from a text to its tokens, its name ``"module:function"``, or both."""


def as_tokenizer(tokenizer: TokenizerLike | None, parameter: str = "tokenizer") -> Tokenizer | None:
    """Return a tokenizer with the name by which it is known, or None.

    Parameters
    ----------
    tokenizer : callable, str or None
        Function of a module, its name ``"module:function"``, or an object with a name and a version, such as a
        pipeline of spaCy.
    parameter : str, default="tokenizer"
        Name of the parameter, for the message.

    Returns
    -------
    Tokenizer or None
        None for None.

    Raises
    ------
    TypeError
        If it is neither callable nor a name.
    ValueError
        If it is a lambda, a local function or a method of a nameless object, or a name that cannot be imported.

    Examples
    --------
    >>> as_tokenizer(str.split), as_tokenizer("builtins:str.split")
    ('builtins:str.split', 'builtins:str.split')
    >>> as_tokenizer(lambda text: text.split())
    Traceback (most recent call last):
    ...
    ValueError: tokenizer is the function '<lambda>' without a name to import it by, which workers, later appends and \
saved models need: define it with def at the top of a module
    """
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    if isinstance(tokenizer, str):
        try:
            return Tokenizer(tokenizer, _imported(tokenizer))
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{parameter} is {tokenizer!r:.60}, but it must be a function or its name 'module:function' ({error})"
            ) from error
    if not callable(tokenizer):
        raise TypeError(
            f"{parameter} is {tokenizer!r:.60}, but it must be a function from a text to a list of tokens"
        )
    return Tokenizer(_name_of(tokenizer, parameter), tokenizer)


def words_of(documents: Documents, lowercase: bool, tokenizer: TokenizerLike | None) -> Tokens:
    """Cut documents into words: by the library's own rule, or by a tokenizer.

    Parameters
    ----------
    documents : Documents
        UTF-8 text.
    lowercase : bool
        Whether the case of the text is lowered first.
    tokenizer : callable, str or None
        Tokenizer; None is the rule of :func:`dspectral.text.tokenize`.

    Returns
    -------
    Tokens
        The words of all documents.

    Examples
    --------
    >>> words_of(Documents.of(["I see"]), True, str.split).starts
    array([0, 2, 6])
    """
    known = as_tokenizer(tokenizer)
    return tokenize(documents, lowercase) if known is None else known.cut(documents, lowercase=lowercase)


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
