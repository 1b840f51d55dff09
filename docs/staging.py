"""Prepare the pages for Sphinx: copy notebooks, write one API page per package, and resolve links and names."""

import base64
import inspect
import json
import re
import shutil
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_origin

import numpy as np

OTHER_PROJECTS = {
    "numpy": (
        "https://numpy.org/doc/stable/",
        {
            "numpy.ndarray": "reference/generated/numpy.ndarray.html",
            "numpy.random.Generator": "reference/random/generator.html",
            "numpy.random.RandomState": "reference/random/legacy.html",
        },
    ),
    "scipy": (
        "https://docs.scipy.org/doc/scipy/",
        {
            "scipy.sparse.csr_array": "reference/generated/scipy.sparse.csr_array.html",
            "scipy.sparse.sparray": "reference/generated/scipy.sparse.sparray.html",
        },
    ),
    "sklearn": (
        "https://scikit-learn.org/stable/",
        {"sklearn.pipeline.Pipeline": "modules/generated/sklearn.pipeline.Pipeline.html"},
    ),
    "dask": (
        "https://docs.dask.org/en/stable/",
        {"dask.array.Array": "generated/dask.array.Array.html"},
    ),
    "distributed": (
        "https://distributed.dask.org/en/stable/",
        {"distributed.Client": "api.html"},
    ),
    "zarr": ("https://zarr.readthedocs.io/en/stable/", {"zarr.Group": "api/zarr/group/"}),
    "anndata": (
        "https://anndata.readthedocs.io/en/stable/",
        {"anndata.AnnData": "generated/anndata.AnnData.html"},
    ),
}
"""Address of the documentation of each project, and the page of each class that docstrings name."""

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
"""Headings for public names of the top level, by defining package."""

OUTSIDE = re.compile(r"\]\((?:\.\./)+(?P<path>(?:notebooks|CHANGELOG|CONTRIBUTING|README|SECURITY|LICENSE)[^)]*)\)")
PAGES_OF_FILES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
}


def public_names() -> dict[str, dict[str, Any]]:
    """Return public objects by package, each at its shortest public name."""
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
            kept = not inspect.ismodule(value) and get_origin(value) is not np.ndarray  # an alias of a NumPy type
            if kept and key not in seen:
                seen.add(key)
                found.setdefault(name, {})[public] = value
    return found


def origin(value: Any) -> tuple[str, str] | None:
    """Return the module and the name that define a class or function."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__module__, value.__qualname__
    return None


def heading_for(value: Any) -> str:
    """Return the heading for a public name of the top level."""
    module = (origin(value) or ("", ""))[0]
    return next((title for prefix, title in THEMES.items() if module.startswith(prefix)), "General")


def write_api_pages(root: Path) -> None:
    """Write one page for each package with public names; autosummary reads these pages."""
    folder = root / "docs" / "api" / "packages"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder.with_name("generated"), ignore_errors=True)  # pages of names that are gone
    folder.mkdir(parents=True)
    for package, names in public_names().items():
        groups: dict[str, list[str]] = {}
        for name, value in names.items():
            groups.setdefault(heading_for(value) if package == "dspectral" else "", []).append(name)
        order = ["", "General", *dict.fromkeys(THEMES.values())]
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
    """Copy the notebooks with their attached pictures, and write their index."""
    folder = root / "docs" / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows, names = [], []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = notebook["cells"]
        for cell in cells:  # MyST reads no attachments
            for name, ((_, content),) in ((name, data.items()) for name, data in cell.pop("attachments", {}).items()):
                (folder / name).write_bytes(base64.b64decode(content))
                cell["source"] = "".join(cell["source"]).replace(f"attachment:{name}", name)
        (folder / path.name).write_text(json.dumps(notebook), encoding="utf-8")
        paragraphs = [text.strip() for cell in cells for text in "".join(cell["source"]).split("\n\n")]
        title, about = [text for text in paragraphs if text][:2]
        first = " ".join(re.split(r"(?<=[.!?:])\s", " ".join(about.split()))[:2])
        rows.append(f"| [{title.lstrip('# ')}]({path.name}) | {first.rstrip(':').rstrip('.')}. |")
        names.append(path.stem)
    page = [
        "# Notebooks",
        "",
        "Each notebook runs in under two minutes on a laptop and downloads nothing: the text is the docstrings of the",
        "Python standard library. `make notebooks` runs all of them.",
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


def write_inventories(folder: Path) -> dict[str, tuple[str, tuple[str | None, str]]]:
    """Write an inventory of each other project for builds without a network, and return Sphinx's mapping."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, (address, pages) in OTHER_PROJECTS.items():
        lines = [f"{name} py:class 1 {page}#$ -" for name, page in pages.items()]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        path = folder / f"{project}.inv"
        path.write_bytes(head.encode() + zlib.compress("\n".join([*lines, ""]).encode()))
        mapping[project] = (address, (None, str(path)))
    return mapping


def rewrite_links(_app: Any, name: str, source: list[str]) -> None:
    """Replace links to files of the repository by links to pages of the site."""

    def inside(match: re.Match[str]) -> str:
        path, hash_sign, anchor = match["path"].partition("#")
        path = "notebooks/index.md" if path.rstrip("/") == "notebooks" else PAGES_OF_FILES.get(path, path)
        return f"](/{path}{hash_sign}{anchor})"

    if not name.startswith("api/"):
        source[0] = OUTSIDE.sub(inside, source[0])


def skip_inherited_members(_app: Any, _what: str, _name: str, member: Any, skip: bool, _options: Any) -> bool | None:
    """Skip methods that a class inherits from scikit-learn, tuples and other libraries."""
    function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
    module = getattr(function, "__module__", None)
    if module is None and not isinstance(member, property):
        return None
    return True if module and not module.startswith("dspectral") else skip or None


def resolve_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve a reference by a defining module or a short name to the public name."""
    target = node.get("reftarget", "")
    owner, dot, member = target.rpartition(".")
    place = aliases().get(target) or (dot and owner in aliases() and f"{aliases()[owner]}.{member}")
    if node.get("refdomain") != "py" or not place or place == target:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", place, node, contnode)


@cache
def aliases() -> dict[str, str]:
    """Return the public name of each object by its defining module and by its other public names."""
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
