"""Names of hashed columns: the terms that a store keeps while it hashes."""

import numpy as np
import pytest

from dspectral import NgramHashing, TextFiles, build_store
from dspectral.store import StoreError
from dspectral.text.hashing import HashingSettings, hash_documents
from dspectral.text.term_sample import TermSample
from dspectral.text.terms import TermTable
from dspectral.types import Documents
from tests.store.interrupted import stopped_at

SETTINGS = HashingSettings(n_features=64, ngram_range=(1, 2))


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    lines = [" ".join(rng.choice(words, size=8, p=np.arange(60, 0, -1) / 1830)) for _ in range(200)]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def built(text, place, **more):
    return build_store(str(text), str(place), hashing=SETTINGS, block_bytes=2000, **more)


def to_csr_counts(text, settings=SETTINGS):
    table = TermTable.from_block(Documents.from_strings(text.read_text().splitlines()), settings.ngram_range)
    return {table.term(i): int(count) for i, count in enumerate(table.counts)}


def test_kept_counts_are_within_the_error_and_others_rarer(text, tmp_path):
    store = built(text, tmp_path / "store", keep_terms=50)
    assert store.n_blocks > 3
    kept, truth = store.kept_terms, to_csr_counts(text)
    actual = {kept.table.term(i): int(count) for i, count in enumerate(kept.table.counts)}
    assert len(actual) == 50
    assert all(0 <= truth[term] - count <= kept.error for term, count in actual.items())
    assert max(count for term, count in truth.items() if term not in actual) <= kept.error
    everything = built(text, tmp_path / "all", keep_terms=10**6).kept_terms
    assert everything.error == 0
    assert {everything.table.term(i): int(c) for i, c in enumerate(everything.table.counts)} == truth


def test_columns_and_signs_are_those_that_the_text_is_hashed_to(text, tmp_path):
    kept = built(text, tmp_path / "store", keep_terms=50).kept_terms
    unigrams = [i for i in range(50) if " " not in kept.table.term(i)]
    assert len(unigrams) > 10
    for i in unigrams:
        row = hash_documents(Documents.from_strings([kept.table.term(i)]), SETTINGS)
        assert row.indices.tolist() == [kept.columns[i]]
        assert row.data.tolist() == [kept.signs[i]]


def test_a_build_that_goes_on_keeps_the_same_terms(text, tmp_path):
    whole = built(text, tmp_path / "whole", keep_terms=40)
    stopped_at("blocks/0000-000002", lambda: built(text, tmp_path / "store", keep_terms=40))
    again = built(text, tmp_path / "store", keep_terms=40)
    assert again.kept_terms.names() == whole.kept_terms.names()
    assert not (tmp_path / "store" / "scratch").exists()


def test_rows_that_are_appended_add_their_terms(text, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("zebra zebra\n" * 500, encoding="utf-8")
    built(text, tmp_path / "store", keep_terms=50)
    store = built(more, tmp_path / "store", append=True)
    assert any("zebra" in name.split("/") for name in store.kept_terms.names().values())
    actual = {store.kept_terms.table.term(i): int(c) for i, c in enumerate(store.kept_terms.table.counts)}
    assert actual["zebra"] == 1000
    assert actual["word0"] <= to_csr_counts(text)["word0"]
    with pytest.raises(StoreError, match=r"keep_terms.*9.*50"):
        built(more, tmp_path / "store", append=True, keep_terms=9)
    built(text, tmp_path / "plain")
    with pytest.raises(StoreError, match=r"keep_terms.*9.*None"):
        built(more, tmp_path / "plain", append=True, keep_terms=9)
    assert built(more, tmp_path / "plain", append=True).kept_terms is None


def test_samples_that_are_cut_say_what_they_may_miss():
    documents = [Documents.from_strings([text]) for text in ("aa aa bb cc", "bb bb cc dd", "cc cc cc")]
    settings = HashingSettings(ngram_range=(1, 1))
    parts = [TermSample.from_block(document, settings, 2) for document in documents]
    assert [part.error for part in parts] == [1, 1, 0]
    merged = parts[0].merge(*parts[1:])
    actual = {merged.table.term(i): int(count) for i, count in enumerate(merged.table.counts)}
    assert actual == {"bb": 3, "cc": 4}
    assert merged.error == 4  # 1, 1 and what "aa" counts


def letters(text):
    return list(text)


def test_texts_files_and_a_tokenizer_of_the_users_own_keep_the_same_terms(text, tmp_path):
    names = built(text, tmp_path / "all", keep_terms=10**6).kept_terms.names()
    hashing = NgramHashing(64, (1, 2))
    for texts in (TextFiles(str(text), block_bytes=2000), text.read_text().splitlines()):
        assert hashing.kept_terms(texts, n_terms=10**6).names() == names
    settings = HashingSettings(ngram_range=(1, 1))._replace(tokenizer=letters).validate()
    table = TermSample.from_block(Documents.from_strings(["aba"]), settings, 9).table
    assert {table.term(i): int(count) for i, count in enumerate(table.counts)} == {"a": 2, "b": 1}
