"""An exploration as one HTML page that needs no other file."""

import json
import platform
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from bokeh.embed import json_item
from bokeh.resources import Resources
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dspectral.exploring.documents import WORD, excerpt
from dspectral.exploring.findings import Branch, Directions, Findings, leaves, scaled_bytes, scaled_seconds
from dspectral.exploring.pictures import COLORS, NO_GROUP, map_plot, spectrum_plot, zipf_plot
from dspectral.types import JSON

N_FREQUENT = 60
PACKAGES = ("numpy", "scipy", "dask", "zarr", "scikit-learn", "numba", "bokeh")
ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "thousands": lambda number: f"{number:,}",
    "size": scaled_bytes,
    "time": scaled_seconds,
}


def write_page(found: Findings) -> str:
    """Return the page of an exploration."""
    bokeh = Resources(mode="inline", components=["bokeh"])
    return ENVIRONMENT.get_template("page.html").render(
        found=found,
        vocabulary=found.vocabulary,
        frequent=range(1, min(N_FREQUENT, len(found.vocabulary.words) - 1) + 1),
        n_listed=0 if found.space is None else len(found.space.near),
        color=_color,
        marked=marked,
        excerpt=excerpt,
        names=_names,
        groups=[] if found.classes is None else _groups(found.classes.tree),
        data=Markup(script_json(page_data(found))),  # noqa: S704
        bokeh=Markup("\n".join(bokeh.js_raw)),  # noqa: S704
        versions=_versions(),
        arguments=_arguments(found.settings),
        certified="" if found.directions is None else _certified(found),
        first_word=_first_word(found),
    )


def page_data(found: Findings) -> dict[str, Any]:
    """Return what the page's script reads: words, their neighbors, documents and plots."""
    vocabulary, space, classes = found.vocabulary, found.space, found.classes
    plots = {"zipf": json_item(zipf_plot(vocabulary))} if len(vocabulary.ranks) > 1 else {}
    data: dict[str, Any] = {"words": [], "near": [], "cosines": [], "documents": {}, "nearest": {}}
    if space is not None:
        n = len(space.near) + 1
        data |= {
            "words": vocabulary.words[:n],
            "counts": vocabulary.counts[:n].tolist(),
            "near": space.near.tolist(),
            "cosines": [[round(100 * c) for c in row] for row in space.cosines.tolist()],
            "mapped": len(space.points),
        }
        if len(space.points):
            plots["map"] = json_item(map_plot(vocabulary, space, classes))
    if classes is not None:
        n = len(data["words"])
        data |= {
            "codes": classes.codes[:n],
            "colors": [_color(group) for group in classes.groups[:n].tolist()],
        }
    if found.directions is not None:
        plots["spectrum"] = json_item(spectrum_plot(found.directions))
    if found.documents is not None:
        shown = found.documents
        rows = shown.nearest.keys() | {row for near in shown.nearest.values() for row, _ in near}
        data["documents"] = {row: [shown.texts[row][0], excerpt(shown.texts[row][1])] for row in sorted(rows)}
        data["nearest"] = shown.nearest
        data["sample"] = shown.sample
    return data | {"plots": plots}


def script_json(value: JSON) -> str:
    r"""Return JSON that may stand in a script element: no ``<`` is in it, so that no text can end the element.

    >>> script_json(["</script>"])
    '["\\u003c/script>"]'
    """
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return compact.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def marked(text: str, words: Collection[str]) -> Markup:
    """Return an excerpt in which some words are set in bold, everything else escaped.

    >>> str(marked("A <b>cat", {"cat"}))
    'A &lt;b&gt;<b>cat</b>'
    """
    cut = excerpt(text, words)
    parts, at = [], 0
    for word in WORD.finditer(cut):
        if word[0].lower() in words:
            parts += [escape(cut[at : word.start()]), Markup("<b>{}</b>").format(word[0])]
            at = word.end()
    return Markup().join([*parts, escape(cut[at:])])


def _certified(found: Findings) -> str:
    """Return in a sentence what the spectrum holds, and what its certificate says."""
    directions = cast("Directions", found.directions)
    share = 100 * float((directions.singular_values**2).sum()) / directions.energy
    bound = 100 * directions.certificate.relative
    return (
        f"{len(directions.singular_values)} directions hold {share:.1f} % of the energy (the sum of all squared "
        f"weights). Each bar is from below; the certificate, computed from the same passes, says that none is "
        f"more than {bound:.1f} % of the energy too low. The bound is wide where a spectrum is flat, as that of "
        "short documents is."
    )


def _first_word(found: Findings) -> int:
    """Return the number of the word that the page shows first: the most telling one on the map, or 1."""
    listed = 0 if found.space is None else len(found.space.points) or len(found.space.near)
    return next((i for i in found.vocabulary.telling.tolist() if i <= listed), min(1, listed))


def _arguments(settings: dict[str, Any]) -> str:
    """Return the arguments of a call that finds the same; sizes are those that are left after the rule."""
    sources = settings["sources"]
    first = "texts=texts" if sources is None else repr(sources[0] if len(sources) == 1 else sources)
    given = [f"{name}={settings[name]!r}" for name in ("unit", "field", "seed") if name in settings]
    return ", ".join([first, *given])


def _color(group: int) -> str:
    return NO_GROUP if group < 0 else COLORS[group % len(COLORS)]


def _names(found: Findings, branch: Branch, n: int) -> list[str]:
    """Return words that stand for a branch: the first of a class, or one of each of the largest classes below."""
    if branch.branches:
        largest = sorted(leaves(branch), key=lambda leaf: -leaf.n_tokens)[:n]
        return [found.vocabulary.words[leaf.words[0]] for leaf in largest]
    return [found.vocabulary.words[i] for i in branch.words[:n].tolist()]


def _groups(branch: Branch) -> list[Branch]:
    """Return the branches that have colors, from left to right."""
    return [branch] if branch.group >= 0 else [one for part in branch.branches for one in _groups(part)]


def _versions() -> list[tuple[str, str]]:
    return [
        ("Python", platform.python_version()),
        ("dspectral", version("dspectral")),
        *((package, version(package)) for package in PACKAGES),
    ]
