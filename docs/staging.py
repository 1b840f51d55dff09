"""What the pages need beside their text: notebooks, one API page a package, and links that hold in both places."""

import inspect
import json
import re
import shutil
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_origin

import numpy as np

THEMES = {
    "dspectral.decomposition": "Sketches, SVD and PCA",
    "dspectral.store": "Stores and corpora",
    "dspectral.preprocessing": "Hashing and weighting",
    "dspectral.text": "Hashing and weighting",
    "dspectral.methods.sentences": "Sentences and intents",
    "dspectral.methods.embeddings": "Word embeddings",
    "dspectral.io": "Files of other programs",
    "dspectral.methods.brown": "Brown clusters",
    "dspectral.methods.hmm": "Sequences",
    "dspectral.methods.multilabel": "Many labels",
    "dspectral.methods.tmpca": "Sentences as trees",
    "dspectral.methods.lsi": "Latent semantic indexing",
    "dspectral.persistence": "Saving",
    "dspectral.engine": "Passes",
}
"""Heading of each public name at the top level, by the package that defines it."""

OUTSIDE = re.compile(
    r"\]\((?:\.\./)+(?P<path>(?:notebooks|CHANGELOG|CONTRIBUTING|README|SECURITY|LICENSE)[^)]*)\)"
)
PAGES_OF_FILES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
}


def public_names() -> dict[str, dict[str, Any]]:
    """Public objects by package, each at the shortest of its public names."""
    top = import_module("dspectral")
    modules = {"dspectral", *(module.name for module in walk_packages(top.__path__, "dspectral."))}
    modules = {name for name in modules if not name.startswith("dspectral.programs")}
    found: dict[str, dict[str, Any]] = {}
    seen: set[tuple[str, str]] = set()
    for name in sorted(modules, key=lambda name: (name.count("."), name)):
        module = import_module(name)
        for public in sorted(getattr(module, "__all__", ())):
            value = getattr(module, public)
            key = origin(value) or (name, public)
            kept = (
                not inspect.ismodule(value) and get_origin(value) is not np.ndarray
            )  # an alias of a NumPy type
            if kept and key not in seen:
                seen.add(key)
                found.setdefault(name, {})[public] = value
    return found


def origin(value: Any) -> tuple[str, str] | None:
    """Return the module and the name that define a class or function."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__module__, value.__qualname__
    return None


def theme_of(value: Any) -> str:
    """Heading under which a public name of the top level stands."""
    module = (origin(value) or ("", ""))[0]
    return next((title for prefix, title in THEMES.items() if module.startswith(prefix)), "Whatever you do")


def write_api_pages(root: Path) -> None:
    """Write one page for each package with public names of its own, for autosummary to follow."""
    folder = root / "docs" / "api" / "packages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for package, names in public_names().items():
        groups: dict[str, list[str]] = {}
        for name, value in names.items():
            groups.setdefault(theme_of(value) if package == "dspectral" else "", []).append(name)
        order = ["", "Whatever you do", *dict.fromkeys(THEMES.values())]
        about = (import_module(package).__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        lines = [
            f"# {package}",
            "",
            about.replace("``", "`"),
            "",
            "```{eval-rst}",
            f".. module:: {package}",
            "```",
        ]
        for title in sorted(groups, key=order.index):
            lines += ["", f"## {title}" if title else "", "", "```{eval-rst}", ".. autosummary::"]
            lines += [
                "   :toctree: ../generated",
                "",
                *(f"   {name}" for name in groups[title]),
                "```",
            ]
        (folder / f"{package}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def stage_notebooks(root: Path) -> None:
    """Copy the notebooks beside the pages, and write their index: title and first sentence of each."""
    folder = root / "docs" / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows, names = [], []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        # Pictures of the documentation lie one folder nearer here than from the notebook's own place.
        (folder / path.name).write_text(text.replace("../docs/images/", "../images/"), encoding="utf-8")
        cells = json.loads(text)["cells"]
        paragraphs = [text.strip() for cell in cells for text in "".join(cell["source"]).split("\n\n")]
        title, about = [text for text in paragraphs if text][:2]
        first = " ".join(re.split(r"(?<=[.!?:])\s", " ".join(about.split()))[:2])
        rows.append(f"| [{title.lstrip('# ')}]({path.name}) | {first.rstrip(':').rstrip('.')}. |")
        names.append(path.stem)
    page = [
        "# Notebooks",
        "",
        "Each notebook runs in under two minutes on a laptop, on text that every Python has: there is nothing to",
        "download. `make notebooks` runs all of them; here they are with the outputs that they were committed with.",
        "",
        "| notebook | what it shows |",
        "|---|---|",
        *rows,
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *names,
        "```",
    ]
    (folder / "index.md").write_text("\n".join(page) + "\n", encoding="utf-8")


def link_into_the_site(_app: Any, name: str, source: list[str]) -> None:
    """Turn links that hold in the repository into links that hold on the site."""

    def inside(match: re.Match[str]) -> str:
        path, hash_sign, anchor = match["path"].partition("#")
        path = "notebooks/index.md" if path.rstrip("/") == "notebooks" else PAGES_OF_FILES.get(path, path)
        return f"](/{path}{hash_sign}{anchor})"

    if not name.startswith("api/"):
        source[0] = OUTSIDE.sub(inside, source[0])


def skip_what_is_inherited_from_elsewhere(
    _app: Any, _what: str, _name: str, member: Any, skip: bool, _options: Any
) -> bool | None:
    """Leave out methods that scikit-learn, tuples and the like gave to a class: they are documented there."""
    function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
    module = getattr(function, "__module__", None)
    if module is None and not isinstance(member, property):
        return None
    return True if module and not module.startswith("dspectral") else skip or None


def find_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve a reference to where an object is defined, or to a short name, by its public name."""
    target = node.get("reftarget", "")
    owner, dot, member = target.rpartition(".")
    place = aliases().get(target) or (dot and owner in aliases() and f"{aliases()[owner]}.{member}")
    if node.get("refdomain") != "py" or not place or place == target:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", place, node, contnode)


@cache
def aliases() -> dict[str, str]:
    """Public name of each public object, by the name of where it is defined and by each other public name."""
    found: dict[str, str] = {}
    for package, names in public_names().items():
        for name, value in names.items():
            place = f"{package}.{name}"
            module, qualname = origin(value) or (package, name)
            found[f"{module}.{qualname}"] = place
            found.setdefault(name, place)
            parts = module.split(".")
            for i in range(1, len(parts)):
                found.setdefault(".".join([*parts[:i], qualname]), place)
    return found
