"""Which n-grams are columns, and in which order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.store.from_text.counting import merge_partition
from dspectral.store.location import Location
from dspectral.store.vocabulary import (
    Vocabulary,
    VocabularySettings,
    find_vocabulary,
    pack_terms,
    write_vocabulary,
)
from dspectral.text.terms import TermTable
from dspectral.types import Documents

TEXTS = st.lists(st.text("ab é\u4e2d ", max_size=12), max_size=6)


def table_of(texts):
    return TermTable.from_block(Documents.from_strings(texts), (1, 2))


def as_lists(table):
    terms = [table.terms.text(i) for i in range(table.terms.n_documents)]
    return terms, table.document_frequency.tolist(), table.counts.tolist()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(TEXTS, min_size=1, max_size=7))
def test_parts_of_any_number_of_blocks_merge_to_the_table_of_all(blocks):
    packed = {f"block{i}": pack_terms(table_of(texts)) for i, texts in enumerate(blocks)}
    with pytest.MonkeyPatch.context() as patch:
        read = "dspectral.store.from_text.counting.read_array"
        patch.setattr(read, lambda where, path: packed[path.partition("/")[0]])
        where = Location("memory://not-read")
        merged = merge_partition(0, location=where, names=list(packed))
    assert as_lists(merged) == as_lists(table_of([text for texts in blocks for text in texts]))


def test_columns_are_ordered_by_documents_then_by_bytes():
    table = table_of(["zoo ab", "zoo ab", "zoo", "éa zz", "éa zz aa"])
    vocabulary = Vocabulary.from_tables(table.partition(4))
    keys = list(zip(-vocabulary.document_frequency, (t.encode() for t in vocabulary.terms), strict=True))
    assert keys == sorted(keys)
    assert vocabulary.terms[0] == "zoo"
    assert Vocabulary.from_tables(table.partition(4), max_features=3).terms == vocabulary.terms[:3]


@pytest.mark.parametrize(("bounds", "expected"), [((2, 5), (2, 5)), ((0.1, 0.5), (2.0, 10.0)), ((1, 1.0), (1, 20.0))])
def test_bounds_are_numbers_of_documents_or_shares(bounds, expected):
    settings = VocabularySettings(min_df=bounds[0], max_df=bounds[1])
    assert settings.limits(20) == expected


def test_a_vocabulary_without_its_mark_does_not_count(tmp_path, monkeypatch):
    where = Location(str(tmp_path))
    monkeypatch.setattr(Location, "write_attributes", lambda *_: None)
    write_vocabulary(where, "vocabulary", Vocabulary.from_tables([table_of(["zoo ab"])]))
    assert find_vocabulary(where, "vocabulary") is None
