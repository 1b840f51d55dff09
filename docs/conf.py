"""Configuration of Sphinx; `make docs` builds the pages."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import staging
from numpydoc.xref import DEFAULT_LINKS

import dspectral

ROOT = Path(__file__).parent.parent

project = "dspectral"
author = "the dspectral developers"
copyright = author  # noqa: A001  Sphinx's name
version = release = dspectral.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
]

exclude_patterns = ["_templates", "interoperation_table.md"]  # a part of interoperation.md
nitpicky = True
nitpick_ignore = [  # docstrings name these; they are not public, or belong to another project
    ("py:func", "token_lists"),
    ("py:data", "SOLVERS"),
    ("py:attr", "trial"),
    ("py:meth", "states"),
    ("py:meth", "str.lower"),
]
language = "en"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks show the outputs that they were committed with

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
DEFAULT_LINKS.clear()  # built-in types need no links
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # link the names below alone
numpydoc_xref_aliases = {
    "ndarray": "numpy.ndarray",
    "Generator": "numpy.random.Generator",
    "RandomState": "numpy.random.RandomState",
    "csr_array": "scipy.sparse.csr_array",
    "SciPy": "scipy.sparse.sparray",
    "Dask": "dask.array.Array",
    "Client": "distributed.Client",
    "Pipeline": "sklearn.pipeline.Pipeline",
    "Zarr": "zarr.Group",
    "AnnData": "anndata.AnnData",
}
intersphinx_mapping = staging.write_inventories(ROOT / "out" / "inventories")
intersphinx_timeout = 5
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output):not(.highlight-output) > div.highlight > pre"

html_theme = "furo"
html_title = "dspectral"
html_static_path = ["_static", "images"]
html_css_files = ["dspectral.css"]
templates_path = ["_templates"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7fb2ee", "color-brand-content": "#7fb2ee"},
}

linkcheck_timeout = 20

staging.stage_notebooks(ROOT)
staging.write_api_pages(ROOT)


def setup(app: Any) -> None:
    """Connect the functions of staging to events of Sphinx."""
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True  # it only copies files at the end
    app.connect("autodoc-skip-member", staging.skip_inherited_members)
    app.connect("missing-reference", staging.resolve_public_name)
    app.connect("source-read", staging.rewrite_links)
