"""Imports go down only: each module may import from lower floors, and within its own without a circle."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = {
    "dspectral._compiled": 0,
    "dspectral.registry": 0,
    "dspectral.configuration": 0,
    "dspectral.quantities": 0,
    "dspectral.paths": 0,
    "dspectral.run_plan": 1,
    "dspectral.summary_files": 2,
    "dspectral.types": 1,
    "dspectral.parameters": 2,
    "dspectral.linalg": 2,
    "dspectral.text": 3,
    "dspectral.engine": 3,
    "dspectral.cooccurrence": 3,
    "dspectral.store": 4,
    "dspectral.store.from_text": 5,
    "dspectral.inputs": 5,
    "dspectral.watch": 5,
    "dspectral.dashboard": 6,
    "dspectral.io": 6,
    "dspectral.decomposition": 6,
    "dspectral.preprocessing": 6,
    "dspectral.methods.brown": 6,
    "dspectral.methods": 7,
    "dspectral.pp": 7,
    "dspectral.search": 8,
    "dspectral.combining": 8,
    "dspectral.planning": 8,
    "dspectral.datasets": 8,
    "dspectral.plotting": 8,
    "dspectral.persistence": 8,
    "dspectral.exploring": 9,
    "dspectral.lsi_model": 9,
    "dspectral": 10,
    "workflows": 11,
    "dspectral.__main__": 12,
}
"""The longest name that a module's name begins with decides. Rooms of one floor do not import each other."""
USERS = {
    "zarr": {"dspectral.store"},
    "sklearn": {
        "dspectral.text",
        "dspectral.inputs",
        "dspectral.decomposition",
        "dspectral.preprocessing",
        "dspectral.methods.brown",
        "dspectral.methods",
        "dspectral.search",
        "dspectral.combining",
        "dspectral.planning",
        "dspectral.plotting",
        "dspectral.exploring",
        "workflows",
    },
    "dask": {
        "dspectral.configuration",
        "dspectral.types",
        "dspectral.engine",
        "dspectral.watch",
        "dspectral.dashboard",
        "dspectral.store",
        "dspectral.store.from_text",
        "dspectral.datasets",
        "dspectral.exploring",
        "workflows",
    },
    "bokeh": {"dspectral.dashboard", "dspectral.exploring"},
    "jinja2": {"dspectral.dashboard", "dspectral.exploring", "workflows"},
    "distributed": {"dspectral.dashboard", "workflows"},
    "numba": {"dspectral._compiled"},
    "filelock": {"dspectral.store"},
    "rich": {"dspectral.__main__", "dspectral.watch", "workflows"},
    "matplotlib": {"dspectral.plotting", "workflows"},
}
"""Who may import a package."""
STEPS = {
    "decomposition": {"base", "estimators", "spectrum"},
    "brown": {"clustering", "adjacent_pairs"},
    "embeddings": {"word_embedding", "queries"},
    "hmm": {"em", "quantizer", "decoding"},
    "anchor": {"estimator", "points"},
    "refinement": {"estimator", "starts"},
    "lsi": {"hybrid", "local", "linear_svm", "local_regions"},
    "multilabel": {"classifier", "held_out", "passes", "prediction", "recipe"},
    "sentences": {"intent", "cross_validation", "embedder", "features", "representation", "mean_vectors"},
    "topics": {"columns", "estimator", "following"},
    "tmpca": {"tree_pca", "levels", "streams"},
}
"""Files that say the steps of a method. All other files of a family hold kernels, summaries and solvers."""
GROUND = {
    "dspectral._compiled",
    "dspectral.quantities",
    "dspectral.registry",
    "dspectral.types",
    "dspectral.linalg",
    "dspectral.text",
    "dspectral.cooccurrence",
}
"""What kernels, summaries and solvers may import beside each other."""
OPTIONAL = {"anndata", "h5py", "librosa", "pyarrow", "pycrfsuite", "soundfile", "stop_words", "zstandard"}
"""Extras, imported inside the functions that read their formats, so that the rest works without them."""
LATE = {
    "dspectral.configuration": {"dask", "dask.utils"},
    "dspectral._compiled": {"numba", "numba.core"},
    "dspectral.decomposition.base": {"dspectral.store.coordinates", "sklearn.callback"},
    "dspectral.engine.around.file_systems": {"fsspec"},
    "dspectral.engine.around.context": {"dask"},
    "dspectral.engine.around.callbacks": {"dask"},
    "dspectral.text.stop_words": {"sklearn.feature_extraction.text"},
    "workflows.build_store": {"fsspec", "workflows._form.plots"},
    "workflows._form.options": {"dask.utils"},
}
"""Modules that the first call of a loop (Numba) or a fit imports, because they take long to import."""


def modules() -> dict[str, Path]:
    paths = [path for top in ("dspectral", "workflows") for path in (ROOT / top).rglob("*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


MODULES = modules()


def make_absolute(tree: ast.AST, package: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level]
            node.module, node.level = ".".join([*parents, *([node.module] if node.module else [])]), 0


def late_names() -> dict[str, str]:
    """Full names that packages import when they are asked for them, and the modules that these come from."""
    found = {}
    for package, path in MODULES.items():
        if path.with_suffix(".pyi").exists():
            stub = ast.parse(path.with_suffix(".pyi").read_text(encoding="utf-8"))
            make_absolute(stub, package)
            nodes = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
            found |= {f"{package}.{alias.name}": str(node.module) for node in nodes for alias in node.names}
    return found


LATE_NAMES = late_names()


@cache
def imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Every module that is imported somewhere in a tree, now or by a name that is asked for, and the line."""
    found = []
    packages = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.append((inner if inner in MODULES else node.module, node.lineno))
                if inner in MODULES:
                    packages[alias.asname or alias.name] = inner
                elif inner in LATE_NAMES:
                    found.append((LATE_NAMES[inner], node.lineno))
    for node in ast.walk(tree):  # `engine.summarize` imports the module of passes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{packages.get(node.value.id)}.{node.attr}"
            found += [(LATE_NAMES[name], node.lineno)] if name in LATE_NAMES else []
    return found


def room(name: str) -> str:
    return max((prefix for prefix in FLOORS if f"{name}.".startswith(f"{prefix}.")), key=len, default="")


def family(name: str) -> str:
    """The package of ``dspectral.methods`` that a module belongs to."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["dspectral", "methods"] and len(parts) > 2 else ""


def is_pure(name: str) -> bool:
    """Whether a module holds kernels, summaries or solvers of a method and none of its steps."""
    parts = name.split(".")
    in_house = room(name) in ("dspectral.decomposition", "dspectral.methods", "dspectral.methods.brown")
    return in_house and MODULES[name].name != "__init__.py" and parts[-1] not in STEPS.get(parts[-2], {"estimator"})


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    found = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    for name, tree in found.items():
        if name.split(".")[0] == "workflows":  # relative there, for the wheel holds them under another name
            make_absolute(tree, name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0])
    return found


def test_no_import_goes_up_or_to_a_stranger_next_door(trees):
    wrong = []
    for name, tree in trees.items():
        for imported, line in imports(tree):
            here, there = room(name), room(imported)
            up = there and FLOORS[there] > FLOORS[here]
            next_door = there and here != there and FLOORS[here] == FLOORS[there]
            if up or next_door:
                wrong.append(f"{name}, line {line}: {imported}")
    assert wrong == []


def test_families_are_strangers_to_each_other(trees):
    wrong = []
    for name, tree in trees.items():
        for imported, line in imports(tree):
            here, there = family(name), family(imported)
            if here and there and there not in (here, "brown"):  # its exchange serves the anchor HMM
                wrong.append(f"{name}, line {line}: {imported}")
    assert wrong == []


def test_kernels_summaries_and_solvers_import_no_dask_zarr_or_estimator(trees):
    wrong = []
    for name, tree in trees.items():
        for imported, line in imports(tree) if is_pure(name) else ():
            mine = imported.startswith("dspectral.")
            fine = is_pure(imported) if imported in MODULES and room(imported) not in GROUND else True
            fine = fine or imported == "dspectral.engine.summary"
            if (mine and not fine) or imported.split(".")[0] in ("dask", "zarr", "sklearn", "numba"):
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
        for imported, line in {actual for function in functions for actual in imports(function)}:
            if imported.split(".")[0] not in OPTIONAL and imported not in LATE.get(name, ()):
                wrong.append(f"{name}, line {line}: {imported}")
    assert wrong == []


def test_every_module_has_its_floor():
    assert [name for name in MODULES if room(name) in ("", "dspectral")] == ["dspectral"]
    assert {room(name) for name in MODULES} == FLOORS.keys()
    assert {family(name) for name in MODULES} >= {"hmm", "lsi", "tmpca"}
    named = {f"{package}.{name}" for package, names in STEPS.items() for name in names}
    there = {".".join(name.split(".")[-2:]) for name in MODULES}
    assert named - there == set()
