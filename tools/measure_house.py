"""Print sizes of this project, tokens first: ``python tools/measure_house.py [TREE]``, or ``make measure``.

Two journeys, a fit from a store and a build of one, are run under a profile hook, so that the files they go through are
counted and not guessed; everything else is read from the sources.
"""

import argparse
import ast
import inspect
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

ROOT = Path(__file__).resolve().parent.parent
PROSE = re.compile(r"([A-Za-z]?[a-z]+[,;:]? ){3}[a-z]")
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
"""Kinds of tokens that are not counted."""
JOURNEYS = """
import json, sys, tempfile, threading
from pathlib import Path
import dask, numpy as np
sys.path.insert(0, sys.argv[1])
import dspectral
assert Path(dspectral.__file__).is_relative_to(sys.argv[1]), dspectral.__file__
dask.config.set(scheduler="sync")
def files(work):
    seen = set()
    def hook(frame, event, argument):
        seen.add(frame.f_code.co_filename)
    threading.setprofile(hook); sys.setprofile(hook)
    try: work()
    finally: sys.setprofile(None); threading.setprofile(None)
    package = str(Path(dspectral.__file__).parent)
    return sorted(str(Path(name).relative_to(package)) for name in seen if name.startswith(package))
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "documents.txt").write_text("the cat sat\\nthe dog ran\\na cat ran\\n" * 400)
    dspectral.build_store(f"{folder}/documents.txt", f"{folder}/first.zarr")  # compiles and imports
    build = files(lambda: dspectral.build_store(f"{folder}/documents.txt", f"{folder}/store.zarr"))
    store = dspectral.open_store(f"{folder}/store.zarr")
    dspectral.TruncatedSVD(100).fit(store.tfidf())
    fit = files(lambda: dspectral.TruncatedSVD(100).fit(store.tfidf()))
print(json.dumps({"a fit": fit, "build_store": build}))
"""


def sources(root: Path, folder: str) -> dict[str, str]:
    """Return the Python files under a folder of the tree, by path."""
    paths = sorted([*(root / folder).rglob("*.py"), *(root / folder).rglob("*.pyi")])
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def n_tokens(text: str) -> int:
    """Return the number of tokens of a Python file without docstrings, comments and layout."""
    statements = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr))
    strings = {
        (node.lineno, node.col_offset)
        for node in statements
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start not in strings for token in tokens)


def n_lines(texts: dict[str, str]) -> int:
    """Return the number of lines of files."""
    return sum(text.count("\n") for text in texts.values())


def journeys(root: Path) -> dict[str, list[str]]:
    """Return the files of the package that a fit and a build run through."""
    command = [sys.executable, "-c", JOURNEYS, str(root)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return found


def module_name(path: str) -> str:
    """Return the dotted name of a source file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def offered(texts: dict[str, str]) -> dict[str, str]:
    """Return the names that packages import when they are asked for them, each with the module it comes from."""
    found: dict[str, str] = {}
    for path, text in texts.items():
        if path.endswith(".pyi"):
            package = module_name(path.removesuffix("i"))
            for node in ast.parse(text).body:
                if isinstance(node, ast.ImportFrom):
                    home = ".".join(filter(None, [package, node.module]))
                    found |= {f"{package}.{alias.asname or alias.name}": home for alias in node.names}
    return found


def imported(text: str, lazy: dict[str, str], modules: set[str]) -> set[str]:
    """Return the modules that a source file imports, names of packages traced to the modules they come from."""
    found: set[str] = set()
    packages: dict[str, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {lazy.get(one, one if one in modules else node.module) for one in inner.values()}
            packages |= inner
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(lazy.get(f"{packages.get(node.value.id)}.{node.attr}", ""))
    return found & modules


def single_importers(texts: dict[str, str]) -> dict[str, str]:
    """Return the files that exactly one other file imports, which is named; a package only offers what lies in it."""
    lazy = offered(texts)
    modules = {module_name(path): path for path in texts if path.endswith(".py")}
    by: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for one in imported(texts[path], lazy, set(modules)):
            if one != name and not one.startswith(f"{name}."):
                by[one].add(name)
    files = (name for name, path in modules.items() if not path.endswith("__init__.py"))
    return {name: min(by[name]) for name in files if len(by[name]) == 1}


def exported() -> dict[str, int]:
    """Return how many names each package has in its ``__all__``."""
    package = import_module("dspectral")
    modules = ["dspectral", *(module.name for module in walk_packages(package.__path__, "dspectral."))]
    return {name: len(getattr(import_module(name), "__all__", ())) for name in modules}


def knobs() -> int:
    """Return the number of arguments of the estimators and of fields of their recipes."""
    dspectral = import_module("dspectral")
    values = [getattr(dspectral, name) for name in dspectral.__all__]
    kinds = [value for value in values if inspect.isclass(value) and hasattr(value, "fit")]
    recipes = [value for value in values if inspect.isclass(value) and value.__name__.endswith("Recipe")]
    arguments = sum(len(inspect.signature(kind).parameters) for kind in kinds)
    return arguments + sum(len(recipe._fields) for recipe in recipes)


def frozen_tests(texts: dict[str, str]) -> list[str]:
    """Return the tests that hold four words in a row of a sentence: in an assertion, in ``match=`` or its cases."""
    found = []
    for path, text in texts.items():
        for test in ast.walk(ast.parse(text)):
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                nodes = list(ast.walk(test))
                patterns = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "match"]
                held = [*patterns, *(node.test for node in nodes if isinstance(node, ast.Assert))]
                held += test.decorator_list if patterns else []
                values = (getattr(node, "value", None) for part in held for node in ast.walk(part))
                if any(isinstance(value, str) and PROSE.search(value) for value in values):
                    found.append(f"{path}::{test.name}")
    return found


def figures(root: Path) -> Iterator[tuple[str, int]]:
    """Yield each figure of the table with its name."""
    texts = {folder: sources(root, folder) for folder in ("dspectral", "tests", "workflows", "tools")}
    house = texts["dspectral"]
    tokens = {
        folder: {path: n_tokens(text) for path, text in files.items() if path.endswith(".py")}
        for folder, files in texts.items()
    }
    yield from ((f"tokens of {folder}/", sum(counts.values())) for folder, counts in tokens.items())
    for room in sorted({path.split("/")[1] for path in house if path.count("/") > 1}):
        counts = tokens["dspectral"].items()
        yield f"tokens of dspectral/{room}/", sum(n for path, n in counts if path.startswith(f"dspectral/{room}/"))
    yield from ((f"lines of {folder}/", n_lines(files)) for folder, files in texts.items())
    yield "files of dspectral/", len(tokens["dspectral"])
    yield from ((f"files that {name} runs through", len(files)) for name, files in journeys(root).items())
    yield "files with one importer", len(single_importers(house))
    yield "names in an __all__", sum(exported().values())
    yield "arguments and recipe fields", knobs()
    yield "tests that freeze prose", len(frozen_tests(texts["tests"]))


def main(argv: list[str] | None = None) -> None:
    """Print the table; ``--details`` also names the files of the journeys and those with one importer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--details", action="store_true", help="name the files of the journeys and single importers")
    arguments = parser.parse_args(argv)
    root = arguments.tree.resolve()
    if find_spec("dask") is None:
        sys.exit("the journeys are run: make measure, or make venv and .venv/bin/python tools/measure_house.py")
    sys.path.insert(0, str(root))
    print("| | |\n|---|---|")
    for name, value in figures(root):
        print(f"| {name} | {value} |")
    if arguments.details:
        texts = sources(root, "dspectral")
        for journey, files in journeys(root).items():
            print(f"\n{journey}: {' '.join(files)}")
        print("\nOne importer:")
        print("\n".join(f"  {name} <- {by}" for name, by in single_importers(texts).items()))


if __name__ == "__main__":
    main()
