"""A number of any size or type in any parameter of any estimator, or of its recipe, gives a result or one sentence."""

import inspect
import re

import numpy as np
import pytest

import dspectral
from dspectral.types import format_value
from tests.bad_inputs import outcome, seeded
from tests.contracts import CASES

HUGE = [
    2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**200, 10**400, -(10**400), 10**5000, np.uint64(2**64 - 1),
    np.int64(-(2**63)), 1e300, -1e300, 5e-324, np.float64(1e308), np.float32(3e38), np.float16(6e4),
]  # fmt: skip
NARROW = [np.int8, np.uint8, np.int16, np.uint64, np.float16, np.float32]
RECIPES = {
    "LocalLSI": dspectral.LocalRecipe,
    "MomentMultiLabelClassifier": dspectral.MultiLabelRecipe,
    "WordEmbedding": dspectral.EmbeddingRecipe,
    "AnchorHMM": dspectral.AnchorRecipe,
    "RefinementHMM": dspectral.RefinementRecipe,
    "IntentClassifier": dspectral.IntentRecipe,
    "SentenceRepresentation": dspectral.SentenceRecipe,
}


def parameters(name):
    """Return the parameters of an estimator and its recipe, each with whether it may be a number."""
    kinds = [type(CASES[name].make()), *([RECIPES[name]] if name in RECIPES else [])]
    return [
        (kind is not kinds[0], one.name, re.search(r"\b(int|float)\b", str(one.annotation)) is not None)
        for kind in kinds
        for one in inspect.signature(kind).parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]


def result(name, of_recipe, parameter, value):
    X, y = CASES[name].data()
    model = CASES[name].make(**seeded(CASES[name]))
    given = {"recipe": RECIPES[name](**{parameter: value})} if of_recipe else {parameter: value}
    model.set_params(**given)
    return CASES[name].result(model.fit(X) if y is None else model.fit(X, y), X)


@pytest.mark.parametrize("name", CASES)
def test_every_recipe_is_tried(name):
    assert ("recipe" in CASES[name].make().get_params(deep=False)) == (name in RECIPES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_huge_number_gives_a_result_or_one_sentence(name):
    faults = {}
    for of_recipe, parameter, is_number in parameters(name):
        for value in HUGE if is_number else [2**200, np.uint64(2**64 - 1)]:
            fault = outcome(lambda: result(name, of_recipe, parameter, value)).fault  # noqa: B023
            if fault:
                faults[parameter, format_value(value)] = fault
    assert faults == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_numpys_narrow_types_are_those_of_python(name):
    defaults = CASES[name].make(**seeded(CASES[name])).get_params(deep=False)
    for of_recipe, parameter, is_number in parameters(name):
        given = inspect.signature(RECIPES[name]).parameters[parameter].default if of_recipe else defaults[parameter]
        if not is_number or type(given) not in (int, float):
            continue
        known = np.asarray(result(name, of_recipe, parameter, given), dtype=object)
        for kind in NARROW:
            same = kind(given) if 0 <= given < 128 else None
            if same is not None and float(same) == given and isinstance(same, np.integer) == isinstance(given, int):
                found = np.asarray(result(name, of_recipe, parameter, same), dtype=object)
                assert str(found.tolist()) == str(known.tolist()), (parameter, kind)
