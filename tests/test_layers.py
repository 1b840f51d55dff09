"""Imports go down only: each module may import from lower floors, and within its own without a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = {
    "dspectral.types": 1,
    "dspectral.weighting": 1,
    "dspectral.kernels": 1,
    "dspectral.metrics": 1,
    "dspectral.solvers": 1,
    "dspectral.summaries": 2,
    "dspectral.graph": 3,
    "dspectral.estimators": 4,
    "dspectral.store": 4,
    "dspectral.datasets": 4,
    "dspectral.models": 5,
    "dspectral": 5,
    "workflows": 6,
}
"""The longest name that a module's name begins with decides."""
STRANGERS = ("dspectral.estimators", "dspectral.store", "dspectral.datasets")
"""Of one floor, and none imports another."""
USERS = {
    "zarr": {"dspectral.store"},
    "sklearn": {"dspectral.estimators", "workflows"},
    "dask": {"dspectral.graph", "dspectral.store", "dspectral.datasets", "workflows"},
    "distributed": {"workflows"},
    "numba": {"dspectral.kernels"},
    "matplotlib": {"workflows"},
}
"""Who may import a package."""
OPTIONAL = {"librosa", "pyarrow", "pycrfsuite", "soundfile", "zstandard"}
"""Extras, imported inside the functions that read their formats, so that the rest works without them."""


def modules() -> dict[str, Path]:
    paths = [path for top in ("dspectral", "workflows") for path in (ROOT / top).rglob("*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


MODULES = modules()


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every module that is imported somewhere in a tree, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in MODULES else node.module), node.lineno


def room(name: str) -> str:
    return max((prefix for prefix in FLOORS if f"{name}.".startswith(f"{prefix}.")), key=len, default="")


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def test_no_import_goes_up_or_to_a_stranger_next_door(trees):
    wrong = []
    for name, tree in trees.items():
        for imported, line in imports(tree):
            here, there = room(name), room(imported)
            up = there and FLOORS[there] > FLOORS[here]
            if up or (here != there and here in STRANGERS and there in STRANGERS):
                wrong.append(f"{name}, line {line}: {imported}")
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle(trees):
    graph = {name: {m for m, _ in imports(tree) if m in MODULES} - {name} for name, tree in trees.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_each_heavy_package_has_its_few_users(trees):
    wrong = []
    for name, tree in trees.items():
        for imported, line in imports(tree):
            users = USERS.get(imported.split(".")[0])
            if users is not None and room(name) not in users:
                wrong.append(f"{name}, line {line}: {imported}")
    assert wrong == []


def test_only_extras_are_imported_inside_functions(trees):
    wrong = []
    for name, tree in trees.items():
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for imported, line in {found for function in functions for found in imports(function)}:
            if imported.split(".")[0] not in OPTIONAL:
                wrong.append(f"{name}, line {line}: {imported}")
    assert wrong == []


def test_every_module_has_its_floor():
    assert [name for name in MODULES if room(name) in ("", "dspectral")] == ["dspectral"]
    assert {room(name) for name in MODULES} >= {"dspectral.graph", "dspectral.kernels", "workflows"}


def test_the_rules_see_what_is_wrong():
    tree = ast.parse(
        "import zarr.storage\nfrom dspectral import graph\ndef f():\n    from dask import array\n"
    )
    found = [("zarr.storage", 1), ("dspectral.graph", 2), ("dask", 4)]
    assert sorted(imports(tree), key=lambda one: one[1]) == found
    assert room("dspectral.kernels.hashing") == "dspectral.kernels"
    assert room("dspectral.graphics") == "dspectral"
    assert room("numpy") == ""
