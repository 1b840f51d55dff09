"""Programs, pages and notebooks use public names alone, and every public name is documented."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from numpydoc.validate import validate

import dspectral
from tools import pages

ROOT = Path(__file__).parent.parent
PAGES = [page for page in pages.pages() if page != "CONTRIBUTING.md"]  # its example is a room of the house
CHECKS_LEFT_OUT = {"EX01", "SA01", "ES01", "GL01", "PR06", "YD01"}
"""Checks of numpydoc that ask for more than a reader needs."""
FOUNDATIONS = (
    "dspectral.configuration",
    "dspectral.cooccurrence",
    "dspectral.engine",
    "dspectral.inputs",
    "dspectral.linalg",
    "dspectral.paths",
    "dspectral.types",
)
"""Rooms whose names serve the other rooms: a sentence and shapes document them, unless another room offers them too."""


def public_packages() -> dict[str, list[str]]:
    """``__all__`` of each module and package that has one: what is in it is public."""
    found = {name: getattr(import_module(name), "__all__", None) for name in sorted(MODULES)}
    return {name: list(names) for name, names in found.items() if names is not None}


MODULES = {"dspectral", *(module.name for module in walk_packages(dspectral.__path__, "dspectral."))}
PACKAGES = public_packages()


def sources() -> Iterator[tuple[str, str]]:
    """The code of programs, pages and notebooks, each with the name of its file."""
    for path in sorted((ROOT / "workflows").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for name in PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        yield name, "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        yield path.name, re.sub(r"^\s*[%!].*$", "", "\n".join(code), flags=re.MULTILINE)


def uses(code: str) -> Iterator[str]:
    """Every name of this package that some code imports, or reaches as an attribute of the package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            chain = re.fullmatch(r"dspectral(\.\w+)+", ast.unparse(node))
            yield from [chain[0]] if chain else []


def is_public(name: str) -> bool:
    """Whether each part of a name is in the ``__all__`` before it; attributes of objects have no underscore."""
    place = "dspectral"
    for part in name.split(".")[1:]:
        inner = f"{place}.{part}"
        if part not in PACKAGES[place] and inner not in PACKAGES:
            return part == "__version__"
        if inner not in MODULES:
            attributes = name.removeprefix(inner).split(".")[1:]
            return not any(attribute.startswith("_") for attribute in attributes)
        if inner not in PACKAGES:
            return False
        place = inner
    return True


def test_programs_pages_and_notebooks_use_public_names_alone():
    actual: dict[str, list[str]] = {}
    for place, code in sources():
        for name in uses(code):
            if name.split(".")[0] == "dspectral" and not is_public(name):
                actual.setdefault(name, []).append(place)
    assert actual == {}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_public_name_exists(package):
    module = import_module(package)
    assert [name for name in PACKAGES[package] if not hasattr(module, name)] == []
    assert len(set(PACKAGES[package])) == len(PACKAGES[package])


def documented(package: str) -> Iterator[tuple[str, object]]:
    """The public classes and functions of a package, and the public methods of the classes, by name."""
    for name in PACKAGES[package]:
        value = getattr(import_module(package), name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue  # constants and names of types
        yield f"{package}.{name}", value
        for member, inner in vars(value).items() if inspect.isclass(value) else ():
            unwrapped = inspect.unwrap(getattr(inner, "__func__", inner)) if callable(inner) else inner
            ours = getattr(unwrapped, "__module__", "").startswith("dspectral")
            if member[0] != "_" and (isinstance(inner, property) or (ours and inspect.isfunction(unwrapped))):
                yield f"{package}.{name}.{member}", inner


def faults(name: str, value: object) -> list[str]:
    """What numpydoc finds wrong in a docstring; the fields of a named tuple may be parameters or attributes."""
    left_out = set(CHECKS_LEFT_OUT)
    if isinstance(value, property):
        left_out |= {"RT01"}
    if inspect.isclass(value) and (issubclass(value, tuple) or is_dataclass(value) or is_protocol(value)):
        written = re.findall(r"^ *(\w+(?:, \w+)*) :", value.__doc__ or "", re.MULTILINE)
        names = {name for line in written for name in line.split(", ")}
        if set(getattr(value, "_fields", getattr(value, "__dataclass_fields__", ()))) <= names:
            left_out |= {"PR01"}
    errors = [f"{code} {sentence}" for code, sentence in validate(name)["errors"] if code not in left_out]
    return errors if isinstance(value, property) else errors + other_defaults(value)


def other_defaults(value: Any) -> list[str]:
    """Which defaults of a signature are others than its docstring says."""
    head = "Attributes" if hasattr(value, "_field_defaults") else "Parameters"
    part = re.split(r"\n[A-Z][a-z ]+\n---", (inspect.getdoc(value) or "").partition(f"{head}\n---")[2])[0]
    given, names_of = (
        inspect.signature(value).parameters if part else {},
        {"float32": "float32", "float64": "float64"},
    )
    wrong = []
    for names, text in re.findall(r"^(\w[\w, ]*) : [^=\n]*default=(\S+)$", part, re.MULTILINE):
        said = eval(text, names_of)  # noqa: S307  a docstring of ours
        for name in names.split(", "):
            default = given[name].default
            if said not in (default, getattr(default, "__name__", default)):
                wrong.append(f"{name} is {default!r}, not {text}")
    return wrong


def is_protocol(value: type) -> bool:
    """Whether a class only says which members it asks for."""
    return bool(getattr(value, "_is_protocol", False))


@pytest.mark.parametrize("package", sorted(name for name in PACKAGES if not name.startswith(FOUNDATIONS)))
def test_every_public_name_is_documented(package):
    wrong = {name: actual for name, value in documented(package) if (actual := faults(name, value))}
    assert wrong == {}
