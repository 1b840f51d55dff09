"""Advice of errors: each call fails, names an option or a call, and succeeds as advised, at the same store."""

import numpy as np
import pytest

from dspectral.store.corpus import open_corpus
from dspectral.store.counts import open_store
from dspectral.store.from_text.build import build_store
from dspectral.store.from_text.corpus_build import build_corpus
from dspectral.store.from_text.texts import Texts
from dspectral.store.location import StoreError
from dspectral.store.matrix import write_counts
from dspectral.store.vocabulary import VocabularySettings


def build_labels(source, store, **options):
    return build_store(source, store, vocabulary=VocabularySettings(), **options)


@pytest.mark.parametrize(
    ("build", "other", "open_it", "n_ways"),
    [
        (build_store, Texts(["a bird sings"]), open_store, 3),
        (build_labels, Texts(["a bird sings"]), open_store, 3),
        (write_counts, np.eye(1) + 2, open_store, 3),
        (build_corpus, Texts(["a bird sings"]), open_corpus, 2),
    ],
)
def test_finished_store_is_opened_extended_or_replaced_as_advised(tmp_path, build, other, open_it, n_ways):
    store, source = str(tmp_path / "store"), np.eye(1) if build is write_counts else Texts(["the cat", "a dog"])
    size = lambda built: getattr(built, "n_rows", None) or built.n_sentences  # noqa: E731
    n_rows = size(build(source, store))
    with pytest.warns(UserWarning, match="was opened: overwrite=True"):
        assert size(build(source, store)) == n_rows
    with pytest.raises(StoreError, match=rf"{open_it.__name__} opens it, .*overwrite=True") as raised:
        build(other, store)
    assert ("append=True" in str(raised.value)) == (n_ways == 3)
    assert size(open_it(store)) == n_rows
    if n_ways == 3:
        assert size(build(other, store, append=True)) == n_rows + 1
        with pytest.raises(StoreError, match="rows"):  # the first rows are not all of them
            build(source, store)
    for _ in range(2):
        assert size(build(other, store, overwrite=True)) == size(open_it(store)) == 1
        open_it(store).check()


def test_store_of_other_settings_is_opened_or_replaced(tmp_path):
    store = str(tmp_path / "store")
    build_store(Texts(["the cat"]), store)
    with pytest.raises(StoreError, match="with other hashing, vocabulary: open_store opens it, overwrite=True"):
        build_labels(Texts(["the cat"]), store)
    assert build_labels(Texts(["the cat"]), store, overwrite=True).vocabulary.terms == ["cat", "the"]
    with pytest.raises(ValueError, match="exclude each other"):
        build_labels(Texts(["the cat"]), store, overwrite=True, append=True)
    with pytest.raises(StoreError, match=r"finished store at .* choose another path"):
        build_corpus(Texts(["the cat"]), store, overwrite=True)


def test_lazy_rows_of_the_same_name_are_not_taken_for_the_finished_ones(tmp_path):
    rows, store = pytest.importorskip("dask.array").ones((4, 2), chunks=2), str(tmp_path / "store")
    write_counts(rows, store)
    with pytest.raises(StoreError, match="open_store opens it"):
        write_counts(rows, store)


def test_changed_texts_in_memory_start_an_interrupted_build_again(tmp_path):
    store = str(tmp_path / "store")
    first = [f"old {i}" for i in range(50)]
    with pytest.raises(TypeError, match="missing='empty'"):
        build_store(Texts([*first, None]), store, block_bytes=64)
    built = build_store(Texts(["new ab", "new cd"]), store, block_bytes=64, vocabulary=VocabularySettings())
    assert built.vocabulary.terms == ["new", "ab", "cd"]
