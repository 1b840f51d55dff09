"""A seeded handful of the draws of ``python -m tests.decomposition.hostile_draws``."""

import pytest

from tests.decomposition.hostile_draws import KINDS, check_draw

N_DRAWS = 3


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_draws_have_no_fault(kind):
    faults = {number: check_draw(kind, [2, number])[1] for number in range(N_DRAWS)}
    assert not any(faults.values()), faults
