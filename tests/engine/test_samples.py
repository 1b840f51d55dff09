"""Samples of a plan: data of the same kind with fewer blocks."""

from typing import NamedTuple

import numpy as np
import pytest

import dspectral
from dspectral import SketchedPCA
from dspectral.engine import Blocks
from dspectral.engine.planning.asking import sample_of
from dspectral.engine.planning.samples import Cut, chosen, cut_of, take
from tests.engine.rows import rows_of


def test_without_data_there_is_nothing_to_plan():
    with pytest.raises(ValueError, match="no data to plan for"):
        dspectral.plan(SketchedPCA(2), 7)


class Corpus(NamedTuple):
    words: list[str]
    counts: np.ndarray
    sentences: Blocks


@pytest.mark.parametrize(
    "data",
    [
        rows_of(9),
        Blocks(np.asarray, list(range(9))),
        Corpus([], np.zeros(0), Blocks(np.asarray, list(range(9)))),
        np.ones((900, 80)),
        [["a", "b"]] * (9 * 4096),
    ],
    ids=["dask", "blocks", "corpus", "array", "lists"],
)
def test_a_sample_is_data_of_the_same_kind_with_fewer_blocks(data, monkeypatch):
    monkeypatch.setattr("dspectral.engine.planning.samples.BLOCK_BYTES", 100 * 80 * 8)
    cut = cut_of(data)
    part = take(data, chosen(cut, 4), cut)
    assert type(part) is type(data)
    assert len(cut_of(part).rows) == 4


def test_labels_are_cut_with_their_rows():
    X, y = rows_of(9), np.arange(270)
    (rows, labels), _ = sample_of((X, y), {})
    assert rows.shape[0] == len(labels) == 120
    assert np.array_equal(
        labels, np.concatenate([np.arange(30 * i, 30 * i + 30) for i in chosen(cut_of(X), 4)])
    )


def test_a_sample_has_the_largest_block_and_not_the_last_one():
    cut = Cut((1,) * 20, (1.0,) * 12 + (3.0,) + (1.0,) * 7, False, None)
    assert 12 in chosen(cut, 3)
    assert 19 not in chosen(cut, 3)
    assert chosen(cut, 50) == list(range(20))
