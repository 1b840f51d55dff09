"""Events say how many passes a fit has, and which of them runs."""

import pytest

from dspectral.engine import emits_events, events, expect_passes, fitting, numbered, run_tasks
from dspectral.engine.events import emit
from tests.contracts import CASES
from tests.engine.hearing import heard_of, of_kind

NO_WORK = {"NgramHashing", "WordVectorRepresentation"}
"""Estimators whose fit only checks parameters."""
VARIANTS = {
    **{name: (name, {}) for name in CASES if name not in NO_WORK},
    "krylov": ("TruncatedSVD", {"solver": "krylov", "n_passes": 4}),
    "nystrom": ("TruncatedSVD", {"solver": "nystrom", "n_passes": 4}),
    "random start": ("RefinementHMM", {"start": "random", "n_em_iter": 3}),
    "relevancy": ("LocalLSI", {"method": "lrw"}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_pass_is_beyond_the_number_of_passes_and_the_last_is_what_the_model_says(variant):
    name, parameters = VARIANTS[variant]
    case = CASES[name]
    X, y = case.data()
    model = case.make(**parameters)
    heard = heard_of(lambda: model.fit(X) if y is None else model.fit(X, y))
    own = of_kind(heard, events.FitBegan)[0]
    assert (own.name, own.parent) == (name, "")
    passes = [event for event in of_kind(heard, events.PassBegan) if event.fit == own.fit and event.number]
    assert [event.number for event in passes] == list(range(1, len(passes) + 1))
    for event in passes:
        assert event.n_passes is None or event.number <= event.n_passes
    if hasattr(model, "n_passes_"):
        assert len(passes) == model.n_passes_
        known = [event.n_passes for event in passes if event.n_passes is not None]
        assert name == "LocalLSI" or not passes or known[-1] >= model.n_passes_
    ended = of_kind(heard, events.FitEnded)[-1]
    assert (ended.fit, ended.n_passes, ended.error) == (own.fit, len(passes), "")


def test_what_is_said_first_of_the_number_of_passes_holds():
    with fitting("Own") as fit:
        expect_passes(4)
        expect_passes(1)
        assert fit.n_passes == 4
        expect_passes(2, anew=True)
        assert fit.n_passes == 2
    expect_passes(1)  # outside a fit it says nothing


def test_a_list_of_tasks_is_a_pass_only_where_that_is_said():
    @emits_events
    def build():
        run_tasks(len, ["a"], name="aside")
        with numbered(is_pass=True):
            run_tasks(len, ["a"], name="read")

    heard = heard_of(build)
    assert [(event.name, event.number) for event in of_kind(heard, events.PassBegan)] == [
        ("aside", None),
        ("read", 1),
    ]
    emit(heard[0])  # nobody listens: nothing happens
