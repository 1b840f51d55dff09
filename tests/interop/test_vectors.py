"""Word vectors and Brown paths: files that other programs load, and files that they wrote."""

import numpy as np
import pytest

from dspectral import read_word2vec, write_word2vec
from dspectral.io import read_brown_paths, write_brown_paths
from tests.interop.rows import row

WORDS = ["the", "café", "naïve", "日本", "don't"]
VECTORS = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
FORMATS = {True: "vectors.bin", False: "vectors.txt"}


@pytest.mark.parametrize("binary", [False, True])
@row("gensim", "to", "`KeyedVectors.load_word2vec_format` loads our text and binary files, bit for bit")
def test_gensim_loads_our_vectors(binary, tmp_path):
    from gensim.models import KeyedVectors

    write_word2vec(tmp_path / FORMATS[binary], WORDS, VECTORS)
    reference = KeyedVectors.load_word2vec_format(str(tmp_path / FORMATS[binary]), binary=binary)
    assert reference.index_to_key == WORDS
    assert np.array_equal(reference.vectors, VECTORS)


@pytest.mark.parametrize("binary", [False, True])
@row("gensim", "from", "`read_word2vec` reads what `save_word2vec_format` wrote, text and binary")
def test_we_read_the_vectors_of_gensim(binary, tmp_path):
    from gensim.models import KeyedVectors

    reference = KeyedVectors(7)
    reference.add_vectors(WORDS, VECTORS)
    reference.save_word2vec_format(str(tmp_path / FORMATS[binary]), binary=binary)
    words, vectors = read_word2vec(tmp_path / FORMATS[binary])
    assert words == WORDS
    assert np.allclose(vectors, VECTORS, rtol=0, atol=0 if binary else 1e-6)


@row("spaCy", "to", "`convert_vectors` (`spacy init vectors`) loads our text file into a vocabulary")
def test_spacy_loads_our_vectors(tmp_path):
    import spacy
    from spacy.training.initialize import convert_vectors

    write_word2vec(tmp_path / "vectors.txt", WORDS, VECTORS)
    nlp = spacy.blank("en")
    convert_vectors(nlp, tmp_path / "vectors.txt", truncate=0, prune=-1)
    for word, vector in zip(WORDS, VECTORS, strict=True):
        assert np.allclose(nlp.vocab[word].vector, vector)


@row("brown-clustering", "from", "codes of its tree pass through our Brown paths unchanged")
def test_codes_of_another_brown_clustering_pass_through_our_files(tmp_path):
    from brown_clustering import BigramCorpus, BrownClustering

    sentences = [line.split() for line in ("the cat sat", "the dog sat", "a cat ran", "a dog ran") * 3]
    reference = BrownClustering(BigramCorpus(sentences, alpha=0.5, min_count=0), m=3)
    reference.train()
    codes = reference.codes()
    words = [word for sentence in sentences for word in sentence]
    write_brown_paths(tmp_path / "paths", list(codes.values()), list(codes), [words.count(word) for word in codes])
    assert {word: code for code, word, _ in read_brown_paths(tmp_path / "paths")} == codes
