"""Notebooks speak to users: their code parses, and takes from dspectral what is public and nothing else."""

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def code(path):
    """The code of a notebook, cell after cell, and that of its text between fences."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            yield source
        else:
            yield from (block.partition("```")[0] for block in source.split("```py\n")[1:])


def imported(source):
    """Modules and names that a piece of code imports from dspectral."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "dspectral")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dspectral":
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_import_public_names_alone(path):
    names = {found for source in code(path) for found in imported(source)}
    assert names
    for module, name in names:
        package = import_module(module)
        assert hasattr(package, "__path__"), f"{module} is no package: its names are for the package alone"
        assert not name or name in getattr(package, "__all__", dir(package)), f"{module} has no public {name}"
