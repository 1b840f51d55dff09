"""Transformer from texts to sparse counts of hashed n-grams."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dspectral.inputs.rows import RunPlanMixin, SparseOutput
from dspectral.parameters import check_integer
from dspectral.preprocessing.analyzers import TOKEN_PATTERN, Accents, Analysis, Unit
from dspectral.registry import register_class
from dspectral.store.columns import columns_from_hashing, set_columns
from dspectral.store.from_text.text_files import TextFiles
from dspectral.store.from_text.texts import Texts as GivenTexts
from dspectral.store.from_text.texts import as_partitions, hash_partitions
from dspectral.store.rows import CountMatrix
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.packing import Texts, pack_texts
from dspectral.text.stop_words import StopWords, check_stop_words
from dspectral.text.term_sample import KeptTerms, TermSample, merge_samples
from dspectral.text.tokenizers import RULE_NAMES, TokenizerLike, as_tokenizer, register_tokenizer
from dspectral.text.tokens import prepare_text


@register_class()
class NgramHashing(RunPlanMixin, SparseOutput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Count the n-grams of texts, hashed to columns, in memory or out of core.

    Columns, signs and arguments are those of scikit-learn's ``HashingVectorizer(norm=None)``. The transformer is
    stateless: :meth:`fit` only checks the parameters.

    Parameters
    ----------
    n_features : int, default=2**17
        Number of columns, a power of two from 2 to 2**30; 2**20 is suitable for bigrams.
    ngram_range : tuple of int, default=(1, 1)
        Minimum and maximum number of words per n-gram, from 1 to 3; not limited to 3 with scikit-learn's analyzer.
    lowercase : bool, default=True
        Whether to lowercase the text first.
    alternate_sign : bool, default=True
        Whether the hash also determines a sign, so that colliding n-grams cancel on average.
    tokenizer : callable or str, default=None
        Function at the top level of a module from a text to a list of tokens, its name ``"module:function"``, or an
        object with a name and a version, such as a spaCy pipeline. Spaces in tokens become ``"_"``, and empty tokens
        are dropped. Stores and saved models record its name. ``"words"`` tokenizes every script like
        :func:`dspectral.build_corpus`; ``"characters"`` also splits scripts without spaces into pairs of letters. None
        is scikit-learn's ``token_pattern``: two letters or more, split at combining marks. ``"auto"`` is
        ``"characters"`` for texts in scripts without spaces, and None for others.
    normalize : {"NFC"} or None, default=None
        Unicode normalization of the text. The tokenizers ``"words"`` and ``"characters"`` always apply NFC.
    analyzer : {"word", "char", "char_wb"} or callable, default="word"
        Units of n-grams: words, characters, or characters within words; or a named function from a text to its n-grams.
    stop_words : str, collection of str or None, default=None
        Words removed before n-grams are formed, or a language: ``"english"`` is scikit-learn's list, others such as
        ``"german"`` need the package stop-words.
    token_pattern : str, default=r"(?u)\b\w\w+\b"
        Regular expression of a word.
    strip_accents : {"ascii", "unicode"}, callable or None, default=None
        Method of removing accents.
    preprocessor : callable, default=None
        Function from a text to a text, instead of `lowercase` and `strip_accents`.

    Notes
    -----
    With `analyzer` or later arguments scikit-learn tokenizes the texts, which takes ten times as long. The first call
    on a machine compiles kernels for about ten CPU seconds. Texts in memory are processed in blocks of 16 MiB. Rows of
    :class:`dspectral.TextFiles` and Dask collections are hashed again in each pass.

    References
    ----------
    Weinberger, Dasgupta, Langford, Smola and Attenberg 2009, "Feature hashing for large scale multitask learning".

    Examples
    --------
    >>> NgramHashing(n_features=8).fit_transform(["to be or not to be", "be"]).toarray()
    array([[ 0.,  0.,  0.,  2.,  1.,  0., -2.,  1.],
           [ 0.,  0.,  0.,  0.,  0.,  0., -1.,  0.]], dtype=float32)

    A pipeline from texts to coordinates, for lists, files or stores:

    >>> from sklearn.pipeline import make_pipeline
    >>> from dspectral import TfidfWeighting, TruncatedSVD
    >>> model = make_pipeline(NgramHashing(2**10), TfidfWeighting(), TruncatedSVD(2))
    >>> _ = model.fit(["the cat sat", "the dog sat", "a dog barked", "the cat purred"])
    >>> model.transform(["new text of a cat"]).shape
    (1, 2)
    """

    def __init__(
        self,
        n_features: int = 2**17,
        ngram_range: tuple[int, int] = (1, 1),
        lowercase: bool = True,
        alternate_sign: bool = True,
        tokenizer: TokenizerLike | None = None,
        normalize: str | None = None,
        *,
        analyzer: Unit = "word",
        stop_words: StopWords = None,
        token_pattern: str = TOKEN_PATTERN,
        strip_accents: Accents = None,
        preprocessor: Callable[[str], str] | None = None,
    ) -> None:
        self.n_features = n_features
        self.ngram_range = ngram_range
        self.lowercase = lowercase
        self.alternate_sign = alternate_sign
        self.tokenizer = tokenizer
        self.normalize = normalize
        self.analyzer = analyzer
        self.stop_words = stop_words
        self.token_pattern = token_pattern
        self.strip_accents = strip_accents
        self.preprocessor = preprocessor

    @property
    def settings(self) -> HashingSettings:
        """Validated parameters as a record for stores and workers."""
        check_integer("n_features", self.n_features, at_least=2)
        analysis_options = {name: getattr(self, name) for name in Analysis._fields}
        if not (self.stop_words is None or isinstance(self.stop_words, str)):
            nfc = self.normalize is not None or (isinstance(self.tokenizer, str) and self.tokenizer in RULE_NAMES[:2])
            words = check_stop_words(self.stop_words)
            analysis_options["stop_words"] = (
                tuple(prepare_text(word, lowercase=False, normalize=nfc) for word in words) or None
            )
        analysis = Analysis(**analysis_options)
        if analysis.is_plain:
            ngram_range, lowercase, tokenizer = self.ngram_range, self.lowercase, as_tokenizer(self.tokenizer)
        else:
            ngram_range, lowercase, tokenizer = (1, 1), False, analysis.as_tokenizer()
            register_tokenizer(tokenizer, "analyzer")
        settings = self.n_features, ngram_range, lowercase, self.alternate_sign, tokenizer, self.normalize
        return HashingSettings(*settings).validate()

    def fit(self, X: Texts | TextFiles | CountMatrix | None = None, y: ArrayLike | None = None) -> Self:
        """Check the parameters without reading texts.

        Parameters
        ----------
        X : ignored
            Not used, present for API consistency.
        y : ignored
            Not used, present for API consistency.

        Returns
        -------
        self
            This transformer.

        Raises
        ------
        ValueError
            If ``n_features`` or ``ngram_range`` is out of range, or the tokenizer has no name.
        """
        self.settings  # noqa: B018  the property validates
        return self

    partial_fit = fit

    def transform(self, X: Texts | GivenTexts | TextFiles | CountMatrix) -> Any:
        """Count the n-grams of texts.

        Parameters
        ----------
        X : iterable of str, Texts, Dask Bag or column, TextFiles, or CountStore
            Documents: a list, tuple, generator or column of strings; a Dask Bag of strings or a column of a Dask
            DataFrame; :class:`dspectral.TextFiles`; or a store hashed with the same settings.

        Returns
        -------
        csr_array, Dask array of CSR blocks, or CountStore, shape (n_documents, n_features)
            Sums of signs in float32. Files and Dask collections give a Dask array that is hashed lazily; a store is
            returned unchanged. Rows stay sparse whatever ``set_output`` requests.

        Raises
        ------
        TypeError
            If X is a single string or path, a table instead of a column, or has items that are not texts.
        ValueError
            If a store was hashed with other settings, or a text is not UTF-8.
        """
        settings = self.settings
        if isinstance(X, TextFiles):
            return X.hash_ngrams(settings)
        if isinstance(X, CountMatrix):
            _check_hashing(X, settings)
            return X
        column: Any = X.column if isinstance(X, GivenTexts) else X
        if (partitions := as_partitions(column)) is not None:
            hash_block = partial(hash_documents, settings=settings)
            hashed = hash_partitions(partitions, hash_block, settings.n_features)
            return set_columns(hashed, columns_from_hashing(settings))
        blocks = [hash_documents(documents, settings) for documents in pack_texts(column)]
        if not blocks:
            return sparse.csr_array((0, settings.n_features), dtype="float32")
        # vstack would copy a single block.
        rows = blocks[0] if len(blocks) == 1 else sparse.vstack(blocks, format="csr")
        return set_columns(rows, columns_from_hashing(settings))

    def kept_terms(self, X: Texts | TextFiles | CountMatrix, *, n_terms: int = 100_000) -> KeptTerms:
        """Return the most frequent n-grams of texts with their columns, to name the columns.

        Parameters
        ----------
        X : iterable of str, TextFiles, or CountStore
            Documents, as for :meth:`transform`; a store returns the terms of its ``keep_terms``.
        n_terms : int, default=100_000
            Number of n-grams to keep.

        Returns
        -------
        KeptTerms
            Column names, for ``terms=`` of :func:`dspectral.top_terms`.

        Raises
        ------
        ValueError
            If there is no text, or a store has no terms or was hashed with other settings.

        Examples
        --------
        >>> NgramHashing(2**10, (1, 1)).kept_terms(["the cat sat", "the dog"]).names()
        {158: 'the', 807: 'cat', 549: 'dog', 948: 'sat'}
        """
        settings, n_terms = self.settings, check_integer("n_terms", n_terms, at_least=1)
        if isinstance(X, TextFiles):
            return X.kept_terms(settings, n_terms=n_terms)
        if isinstance(X, CountMatrix):
            _check_hashing(X, settings)
            terms: KeptTerms | None = getattr(X, "kept_terms", None)
            if terms is None:
                raise ValueError("the store has no terms: build it with keep_terms=100_000")
            return terms
        samples = [TermSample.from_block(documents, settings, n_terms) for documents in pack_texts(X)]
        if not samples:
            raise ValueError("X has no texts, but must have at least one")
        return KeptTerms.from_sample(merge_samples(samples), settings)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_features


def _check_hashing(store: CountMatrix, settings: HashingSettings) -> None:
    """Raise a ValueError if a store was not hashed with the same settings."""
    if store.hashing is None:
        raise ValueError("the store has no hashed n-grams: remove NgramHashing from the pipeline")
    if store.hashing != settings:
        raise ValueError(
            f"the store was hashed with {store.hashing}, but NgramHashing has {settings}: "
            "use NgramHashing(**store.hashing._asdict())"
        )
