"""Programs, pages and notebooks use public names alone, and every public name is documented."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from numpydoc.validate import validate

import dspectral

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")
NEEDED: dict[str, str] = {}
"""Names that programs import though they are not public, and which program does. It may only shrink."""
UNDOCUMENTED: frozenset[str] = frozenset()
"""Public names whose docstrings do not say everything yet. It may only shrink."""
CHECKS_LEFT_OUT = {"EX01", "SA01", "ES01", "GL01", "PR06", "YD01"}
"""As in pyproject's table ``numpydoc_validation``, which leaves out more for what is not public."""


def public_packages() -> dict[str, list[str]]:
    """``__all__`` of each module and package that has one: what is in it is public."""
    names = [dspectral.__name__, *(m.name for m in walk_packages(dspectral.__path__, "dspectral."))]
    found = {name: getattr(import_module(name), "__all__", None) for name in names}
    return {name: list(names) for name, names in found.items() if names is not None}


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
    """Whether a name is a public package, is in the ``__all__`` of one, or is an attribute of such a name."""
    place, _, last = name.rpartition(".")
    if name in PACKAGES or place not in PACKAGES:
        return name in PACKAGES or (place.startswith("dspectral.") and is_public(place) and last[0] != "_")
    return last in PACKAGES[place]


def test_programs_pages_and_notebooks_use_public_names_alone():
    found: dict[str, list[str]] = {}
    for place, code in sources():
        for name in uses(code):
            if name.split(".")[0] == "dspectral" and not is_public(name):
                found.setdefault(name, []).append(place)
    assert {name: places for name, places in found.items() if name not in NEEDED} == {}
    assert NEEDED.keys() - found.keys() == set(), "these are no longer needed: take them out of NEEDED"


def test_the_rules_see_what_is_not_public():
    code = (
        "import dspectral.engine.passes\nfrom dspectral import summarize\ndspectral.engine.blas.pinned(1)\n"
    )
    found = set(uses(code))
    assert {"dspectral.engine.passes", "dspectral.summarize", "dspectral.engine.blas.pinned"} <= found
    assert [name for name in sorted(found) if not is_public(name)] == [
        "dspectral.engine.blas",
        "dspectral.engine.blas.pinned",
        "dspectral.engine.passes",
    ]
    assert is_public("dspectral.SketchedPCA.fit")
    assert not is_public("dspectral.engine.summarize._hidden")


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
    if inspect.isclass(value) and issubclass(value, tuple):
        fields = set(value._fields)
        if fields <= set(re.findall(r"^ *(\w+(?:, \w+)*) :", value.__doc__ or "", re.MULTILINE)):
            left_out |= {"PR01"}
    return [f"{code} {sentence}" for code, sentence in validate(name)["errors"] if code not in left_out]


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_public_name_is_documented(package):
    wrong = {name: found for name, value in documented(package) if (found := faults(name, value))}
    assert {name: found for name, found in wrong.items() if name not in UNDOCUMENTED} == {}
