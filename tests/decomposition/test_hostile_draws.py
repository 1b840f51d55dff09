"""A seeded handful of the draws of ``python -m tests.decomposition.hostile_draws``."""

import pytest

from tests.decomposition.hostile_draws import KINDS, check_draw

N_DRAWS = 6
NOT_YET = ("one_hot", "permuted_identities", "equal_blocks", "repeated_documents", "geometric")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__name__ not in NOT_YET])
def test_hostile_draws_have_no_fault(kind):
    faults = {number: check_draw(kind, [0, number])[1] for number in range(N_DRAWS)}
    assert not any(faults.values()), faults
