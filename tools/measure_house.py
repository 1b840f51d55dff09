"""Print the table "Figures to hold against" for a tree of this project: sizes, comments, types, names and imports.

``python tools/measure_house.py [TREE] [--json]`` reads the sources of ``TREE/dspectral`` as text and runs none of
them, except the table of floors in ``TREE/tests/test_layers.py``. Older trees, whose rooms were kinds of code, can be
measured too.
"""

import argparse
import ast
import importlib.util
import io
import json
import statistics
import sys
import tokenize
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeAlias

from scipy import sparse
from scipy.sparse.csgraph import connected_components

PACKAGE = "dspectral"
FAMILIES = {"anchor HMM": "AnchorHMM", "TMPCA": "TreePCA", "hybrid LSI": "HybridLSI"}
"""Estimators for which the files of their own are counted."""
OWN = ("methods", "kernels", "solvers", "summaries", "estimators")
"""Rooms whose files belong to methods; the last four are those of the layout by kinds of code."""
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One source file.

    Attributes
    ----------
    source : str
        Its text.
    tree : ast.Module
        Its syntax tree.
    is_package : bool
        Whether it is an ``__init__.py``.
    stub : ast.Module or None
        Syntax tree of the ``__init__.pyi`` beside it, which says what a package imports when it is asked for it.
    """

    source: str
    tree: ast.Module
    is_package: bool
    stub: ast.Module | None = None

    def functions(self) -> Iterator[Function]:
        """Yield all functions and methods, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


class Arguments(NamedTuple):
    """Arguments of all functions: how many there are, and how many of them may be anything."""

    total: int
    anything: int


class House:
    """The sources of a tree, and what can be counted in them.

    Parameters
    ----------
    root : Path
        Folder that holds ``dspectral`` and, for the floors, ``tests/test_layers.py``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not (self.root / PACKAGE).is_dir():
            raise NotADirectoryError(f"{root} holds no folder {PACKAGE}: name the root of a checkout")
        self.modules = dict(sorted(self._read()))

    def _read(self) -> Iterator[tuple[str, Module]]:
        for path in (self.root / PACKAGE).rglob("*.py"):
            name = ".".join(path.relative_to(self.root).with_suffix("").parts)
            source, beside = path.read_text(encoding="utf-8"), path.with_suffix(".pyi")
            stub = ast.parse(beside.read_text(encoding="utf-8")) if beside.exists() else None
            is_package = path.stem == "__init__"
            yield name.removesuffix(".__init__"), Module(source, ast.parse(source), is_package, stub)

    @cached_property
    def classes(self) -> dict[str, tuple[str, ast.ClassDef]]:
        """Module and definition of each class at the top of a module, by its name."""
        return {
            node.name: (name, node)
            for name, module in self.modules.items()
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules of this package that each module imports."""
        return {
            name: {found for found, _ in self._imported(module.tree) if found in self.modules} - {name}
            for name, module in self.modules.items()
        }

    def _imported(self, tree: ast.AST) -> Iterator[tuple[str, int]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield (inner if inner in self.modules else str(node.module)), node.lineno

    def n_lines(self) -> int:
        """Return the number of lines of all sources."""
        return sum(module.source.count("\n") for module in self.modules.values())

    def function_lengths(self) -> list[int]:
        """Return the lines of each function, without its docstring and decorators."""
        found = [function for module in self.modules.values() for function in module.functions()]
        return [_lines(function) - _lines(_docstring(function)) for function in found]

    def comment_share(self) -> float:
        """Return lines of comments per line of code; lines of docstrings are neither."""
        counts = [comments_and_code(module) for module in self.modules.values()]
        return sum(comments for comments, _ in counts) / max(1, sum(code for _, code in counts))

    def arguments(self) -> Arguments:
        """Count arguments, and those whose annotation is missing, ``object``, ``Any`` or another name of it."""
        aliases = self._names_of_anything()
        found = [
            argument.annotation
            for module in self.modules.values()
            for function in module.functions()
            for argument in _arguments(function.args)
        ]
        return Arguments(len(found), sum(_is_anything(annotation, aliases) for annotation in found))

    def _names_of_anything(self) -> set[str]:
        named = [
            (ast.unparse(node.target), ast.unparse(node.value))
            for module in self.modules.values()
            for node in module.tree.body
            if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.annotation) == "TypeAlias"
        ]
        return {"Any", "object", *(name for name, value in named if value == "Any")}

    def public_names(self) -> int:
        """Count functions, classes and constants at the top of a module whose names have no underscore."""
        total = 0
        for module in self.modules.values():
            found = {name for node in module.tree.body for name in _defined(node)}
            total += sum(not name.startswith("_") for name in found)
        return total

    def exported(self) -> dict[str, list[str]]:
        """Return ``__all__`` of each package that has one."""
        return {
            name: names
            for name, module in self.modules.items()
            if module.is_package and (names := _exported(module.stub or module.tree))
        }

    def constructors(self) -> dict[str, int]:
        """Return the number of arguments of each public class that has ``fit``, by its name."""
        found = {}
        for name in self.exported().get(PACKAGE, []):
            if name in self.classes and self._method(name, "fit"):
                begin = self._method(name, "__init__")
                found[name] = len(list(_arguments(begin.args))) if begin else 0
        return found

    def _method(self, class_name: str, method: str) -> Function | None:
        """Return a method of a class or of those that it is derived from, as far as they are defined here."""
        if class_name not in self.classes:
            return None
        node = self.classes[class_name][1]
        own = [one for one in node.body if isinstance(one, Function) and one.name == method]
        inherited = (self._method(ast.unparse(base).split("[")[0], method) for base in node.bases)
        return own[0] if own else next((one for one in inherited if one), None)

    def upward(self) -> list[str] | None:
        """Return the imports that go up or next door by the tree's own table of floors; None if it has none."""
        path = self.root / "tests" / "test_layers.py"
        if not path.exists():
            return None
        layers = _loaded(path)
        strangers = set(getattr(layers, "STRANGERS", layers.FLOORS))  # once only some rooms of a floor were
        wrong = []
        for name, module in self.modules.items():
            for imported, line in self._imported(module.tree):
                here, there = layers.room(name), layers.room(imported)
                higher = layers.FLOORS[there] - layers.FLOORS[here] if there and here != there else -1
                if higher > 0 or (higher == 0 and {here, there} <= strangers):
                    wrong.append(f"{name}, line {line}: {imported}")
        return wrong

    def circles(self) -> list[list[str]]:
        """Return the groups of modules that import each other in a circle."""
        names = list(self.modules)
        place = {name: i for i, name in enumerate(names)}
        pairs = [(place[a], place[b]) for a, found in self.imports.items() for b in found]
        rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
        graph = sparse.coo_array(([True] * len(pairs), (rows, columns)), shape=(len(names), len(names)))
        n_groups, group = connected_components(graph.tocsr(), connection="strong")
        groups: list[list[str]] = [[] for _ in range(n_groups)]
        for name, number in zip(names, group, strict=True):
            groups[number].append(name)
        return [found for found in groups if len(found) > 1]

    def private_dask(self) -> list[str]:
        """Return the modules that import a private module of Dask or of its scheduler."""
        return [
            name
            for name, module in self.modules.items()
            if any(_is_private_dask(imported) for imported, _ in self._imported(module.tree))
        ]

    def files_of(self, class_name: str) -> list[str] | None:
        """Return the modules to read before a class is altered, or None if there is no such class.

        These are its own module and what that imports, directly or through others. Packages that only hand names
        on are left out.

        Parameters
        ----------
        class_name : str
            Name of a class of this package.

        Returns
        -------
        list of str or None
            Their names, in order.
        """
        if class_name not in self.classes:
            return None
        waiting, found = [self.classes[class_name][0]], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._read_with(name)
        return sorted(name for name in found if not self.modules[name].is_package)

    def _read_with(self, name: str) -> set[str]:
        """Return the modules that a module imports; for a name that comes from a package, the one that defines it."""
        found = set[str]()
        for node in ast.walk(self.modules[name].tree):
            if isinstance(node, ast.ImportFrom) and self._is_package(str(node.module)):
                inside = f"{node.module}."
                for alias in node.names:
                    places = [place for place in self._places.get(alias.name, []) if place.startswith(inside)]
                    found.update(places or [f"{node.module}.{alias.name}"])
        whole = {one for one in self.imports[name] if not self._is_package(one)}
        return {one for one in found | whole if one in self.modules}

    def _is_package(self, name: str) -> bool:
        return name in self.modules and self.modules[name].is_package

    @cached_property
    def _places(self) -> dict[str, list[str]]:
        """The modules that define a name at their top."""
        places: dict[str, list[str]] = {}
        for module, content in self.modules.items():
            for name in (one for node in content.tree.body for one in _defined(node)):
                places.setdefault(name, []).append(module)
        return places


def comments_and_code(module: Module) -> tuple[int, int]:
    """Count the lines that hold a comment, and those that hold code."""
    documented = {
        line
        for node in ast.walk(module.tree)
        for one in _strings(node)
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }
    comments, code = set[int](), set[int]()
    blank = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in blank:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(comments), len(code - documented)


def _strings(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield docstrings, and strings that stand alone below a constant to explain it."""
    for one in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
        if (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Constant)
            and isinstance(one.value.value, str)
        ):
            yield one


def _docstring(function: Function) -> ast.stmt | None:
    return function.body[0] if ast.get_docstring(function, clean=False) is not None else None


def _lines(node: ast.stmt | None) -> int:
    return 0 if node is None else (node.end_lineno or node.lineno) - node.lineno + 1


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    positional = [*arguments.posonlyargs, *arguments.args]
    own = positional[1:] if positional and positional[0].arg in ("self", "cls") else positional
    yield from (*own, *arguments.kwonlyargs)
    yield from (one for one in (arguments.vararg, arguments.kwarg) if one)


def _is_anything(annotation: ast.expr | None, aliases: set[str]) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _is_anything(annotation.left, aliases) or _is_anything(annotation.right, aliases)
    return annotation is None or ast.unparse(annotation).rsplit(".", 1)[-1] in aliases


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, Function | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def _exported(tree: ast.Module) -> list[str]:
    """Return the names in ``__all__``; where there is no such list, those that a stub imports."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and _defined(node) == ["__all__"]:
            strings = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            return [name for name in strings if isinstance(name, str)]
    handed_on = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level)
    return [alias.asname for node in handed_on for alias in node.names if alias.asname]


def _is_private_dask(imported: str) -> bool:
    top, *inner = imported.split(".")
    return top in ("dask", "distributed") and any(part.startswith("_") for part in inner)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("layers_of_the_tree", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(house: House) -> dict[str, str]:
    """Return the rows of the table, as text."""
    lengths, arguments, exported = house.function_lengths(), house.arguments(), house.exported()
    constructors, upward, private = house.constructors(), house.upward(), house.private_dask()
    named = sum(len(names) for names in exported.values())
    return {
        "modules / lines": f"{len(house.modules)} / {house.n_lines():,}",
        "function median / max (lines)": f"{statistics.median(lengths):g} / {max(lengths)}",
        "comments per code line": f"{house.comment_share():.1%}",
        "arguments `Any` in effect": f"{arguments.anything / max(1, arguments.total):.1%} of {arguments.total}",
        "names without underscore / in an `__all__`": f"{house.public_names()} / {named}",
        "packages with `__all__`": str(len(exported)),
        "constructor arguments / estimators": f"{sum(constructors.values())} / {len(constructors)}",
        "most constructor arguments": _most(constructors),
        "imports upward": "-" if upward is None else str(len(upward)),
        "circles": str(len(house.circles())),
        "files with private Dask calls": f"{len(private)} ({', '.join(private)})" if private else "0",
        **{
            f"files to read for {name} (its folder / methods / all)": _files(house, of)
            for name, of in FAMILIES.items()
        },
    }


def _most(constructors: Mapping[str, int]) -> str:
    ranked = sorted(constructors.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count}" for name, count in ranked[:3]) or "-"


def _files(house: House, class_name: str) -> str:
    found = house.files_of(class_name)
    if found is None:
        return "-"
    folder = folder_of(house.classes[class_name][0])
    return (
        f"{sum(f'{name}.'.startswith(folder) for name in found)} / {sum(map(is_own, found))} / {len(found)}"
    )


def folder_of(module: str) -> str:
    """Return the package of a module's method, with a dot behind it; its folder in the layout by kinds of code.

    Examples
    --------
    >>> folder_of("dspectral.methods.hmm.anchor.points"), folder_of("dspectral.estimators.brown")
    ('dspectral.methods.hmm.', 'dspectral.estimators.')
    """
    parts = module.split(".")
    return ".".join(parts[:3] if parts[1] == "methods" else parts[:2]) + "."


def is_own(module: str) -> bool:
    """Report whether a module belongs to methods rather than to a foundation."""
    return module.split(".")[1] in OWN


def main(argv: list[str] | None = None) -> None:
    """Print the table for the tree named on the command line, this one by default."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    parser.add_argument("--details", action="store_true", help="also name the files of the families")
    arguments = parser.parse_args(argv)
    try:
        house = House(arguments.tree)
    except NotADirectoryError as error:
        sys.exit(f"measure_house: {error}")
    rows = figures(house)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print("| | figure |\n|---|---|")
        print("\n".join(f"| {name} | {value} |" for name, value in rows.items()))
    for name, of in FAMILIES.items() if arguments.details else ():
        print(f"\n{name}: {', '.join(house.files_of(of) or [])}")


if __name__ == "__main__":
    main()
