"""Topic models of other programs, UMAP and LangChain's names take our embedder as it is."""

import sys
from importlib import metadata
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import normalized_mutual_info_score, silhouette_score
from sklearn.pipeline import make_pipeline

from dspectral import Texts, build_store, embedder
from dspectral.datasets import standard_library_documents
from tests.interop.rows import row

MODULES = "asyncio", "_pydecimal", "tkinter", "email"
ABSENT = ("torch", "torch.nn", "torch.nn.functional", "transformers", "sentence_transformers")
ABSENT += ("sentence_transformers.base", "sentence_transformers.base.modality")


@pytest.fixture(scope="module")
def documents():
    """Texts of four packages of the standard library, and the package of each."""
    found = standard_library_documents()
    kept = [(text, label) for text, label in zip(found.texts, found.labels, strict=True) if label in MODULES]
    return [text for text, _ in kept], [label for _, label in kept]


@row(
    "BERTopic",
    "inside",
    "`BERTopic(embedding_model=embedder())` finds the packages of documents, and `transform` of new ones",
    packages="bertopic umap-learn hdbscan",
)
def test_bertopic_finds_topics_with_our_embedder(documents):
    from bertopic import BERTopic
    from umap import UMAP

    texts, labels = documents
    umap = UMAP(5, n_components=5, n_epochs=200, metric="cosine", random_state=0)
    model = BERTopic(embedding_model=embedder(20), umap_model=umap, min_topic_size=10)
    topics, _ = model.fit_transform(texts)
    assert normalized_mutual_info_score(labels, topics) > 0.3
    encoder = model.embedding_model.pipe
    assert np.array_equal(model.embedding_model.embed(texts[:9]), encoder.encode(texts[:9]))
    assert len(model.transform(["a decimal number", "an event loop"])[0]) == 2


def without_torch(monkeypatch):
    """Let turftopic be imported where what it imports for models of its own, PyTorch and others, is empty classes."""

    class Absent(ModuleType):
        __path__ = ()

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    for name in ABSENT:
        monkeypatch.setitem(sys.modules, name, module := Absent(name))
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == "sentence-transformers" else version(name))


@row(
    "turftopic",
    "inside",
    "`SemanticSignalSeparation` and `KeyNMF` with `encoder=embedder()`; PyTorch, which these do not call, is left out",
    packages="turftopic igraph",
)
def test_turftopic_finds_topics_with_our_encoder(documents, monkeypatch):
    if not all(map(find_spec, ("torch", "transformers", "sentence_transformers"))):
        without_torch(monkeypatch)
    from turftopic import KeyNMF, SemanticSignalSeparation

    texts, labels = documents
    for kind in (SemanticSignalSeparation, KeyNMF):
        words = CountVectorizer(min_df=5, stop_words="english")
        model = kind(4, encoder=embedder(20), vectorizer=words, random_state=0)
        shares = np.abs(model.fit_transform(texts))
        assert normalized_mutual_info_score(labels, shares.argmax(axis=1)) > 0.15
        assert np.array_equal(model.encode_documents(texts[:9]), model.encoder.encode(texts[:9]))


@row(
    "UMAP",
    "inside",
    "a pipeline of `embedder()` and `UMAP` from texts to the plane, also from a store",
    packages="umap-learn",
)
def test_umap_draws_what_the_embedder_returns(documents, tmp_path):
    from umap import UMAP

    texts, labels = documents
    encoder = embedder(20)
    hashing = encoder[-1].word_hashing
    store = build_store(Texts(texts), str(tmp_path / "words.zarr"), hashing=hashing)
    umap = UMAP(10, n_epochs=20, random_state=0)
    plane = make_pipeline(encoder, umap).fit_transform(texts)
    assert silhouette_score(plane, labels) > 0
    saved = embedder(20).encode(store, out=str(tmp_path / "z.zarr"))
    assert np.allclose(umap.transform(saved.array[:5].compute()), umap.transform(encoder.encode(texts[:5])), atol=1e-3)
