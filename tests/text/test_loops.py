"""Loops that call other loops: each is compiled once, whatever the integers are that it is given."""

import numpy as np
from numba.core import config

from dspectral._compiled import compiled, read_only


@compiled
def plus_one(number):
    return number + 1


@compiled
def total(values):
    found = plus_one(0)
    at = 0
    while at < values.size:
        found += plus_one(values[at]) + plus_one(at)
        at = plus_one(at)
    return found


def test_a_loop_is_compiled_once_for_literals_variables_and_integers_of_any_width(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    assert total(read_only(np.array([5, 7], dtype=np.int32))) == 1 + (6 + 1) + (8 + 2)
    assert [str(of) for (of,) in plus_one.dispatcher().signatures] == ["int64"]
