"""An exploration as one HTML page that needs no other file."""

import dataclasses
import platform
import tempfile
import webbrowser
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from bokeh.embed import json_item
from bokeh.resources import Resources
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dspectral.exploring.documents import WORD, excerpt
from dspectral.exploring.findings import (
    ROWS,
    TEXT,
    TOKENS,
    Branch,
    Classes,
    Documents,
    Stage,
    Topic,
    Vocabulary,
    WordSpace,
    leaves,
    scaled_bytes,
    scaled_seconds,
)
from dspectral.exploring.pictures import COLORS, NO_GROUP, map_plot, zipf_plot

N_FREQUENT = 60
PACKAGES = ("dspectral", "numpy", "scipy", "dask", "zarr", "scikit-learn", "numba", "bokeh")
ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.policies["json.dumps_kwargs"] = {
    "separators": (",", ":"),
    "ensure_ascii": False,
    "allow_nan": False,
}
ENVIRONMENT.filters |= {"thousands": "{:,}".format, "size": scaled_bytes, "time": scaled_seconds}


@dataclass(repr=False)
class Exploration:
    """Findings of :func:`explore` in a text, as a page to look at.

    Attributes
    ----------
    name : str
        Title of the page, the name of the first source; set it to another before the page is written.
    size : dict
        ``documents``, ``sentences``, ``tokens``, ``types`` and ``bytes`` of the text; bytes are None where a source
        does not say its size.
    settings : dict
        Settings with which it was made, sizes after the rule for short texts among them.
    vocabulary : Vocabulary
        Frequent words.
    topics : list of Topic
        Topics of the documents, that of the largest share first; none if the text has too few documents or words.
    documents : Documents or None
        Documents that are shown.
    space : WordSpace or None
        Nearest words and their map.
    classes : Classes or None
        Brown classes.
    missing : dict of str to str
        Why a part is None, by its name.
    stages : list of Stage
        The steps that were done, and how long each took.
    seconds : float
        Wall-clock time of all.
    peak_memory_bytes : int
        Largest memory of this process since it started (0 where the system does not say), or what a caller measured.
    """

    name: str
    size: dict[str, int | None]
    settings: dict[str, Any]
    vocabulary: Vocabulary
    topics: list[Topic] = dataclasses.field(default_factory=list)
    documents: Documents | None = None
    space: WordSpace | None = None
    classes: Classes | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    stages: list[Stage] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def __repr__(self) -> str:
        return f"Exploration({self.name!r}: {self.size['documents']} documents, {self.size['tokens']} words)"

    def html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            HTML that needs no other file and asks nothing of the network.
        """
        return write_page(self)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page.

        Parameters
        ----------
        path : str or path
            File to write, ``explore.html`` for instance.

        Returns
        -------
        Path
            The file.
        """
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def show(self) -> Path:
        """Write the page to a temporary file and open it in the web browser.

        Returns
        -------
        Path
            The file, which stays.
        """
        path = self.save(Path(tempfile.mkdtemp(prefix="dspectral-explore-")) / "explore.html")
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that its style and the notebook's leave each other alone."""
        frame = "width:100%;height:80vh;min-height:480px;border:1px solid #8884"
        return f'<iframe title="dspectral explore" style="{frame}" srcdoc="{escape(self.html())}"></iframe>'

    def sentence(self) -> str:
        """Return in a sentence what the text is and what it took.

        Returns
        -------
        str
            The first line of the page.
        """
        size = self.size
        stored = "" if size["bytes"] is None else f" ({scaled_bytes(size['bytes'])} as stored)"
        texts, tokens, rows = (
            sum(stage.passes for stage in self.stages if stage.reads == reads)
            for reads in (TEXT, TOKENS, ROWS)
        )
        memory = (
            f" and at most {scaled_bytes(self.peak_memory_bytes)} of memory" if self.peak_memory_bytes else ""
        )
        return (
            f"{size['documents']:,} documents with {size['tokens']:,} words, {size['types']:,} of them different"
            f"{stored}: read {texts} times as text, {tokens} times as numbered words and {rows} times as counts, in "
            f"{scaled_seconds(self.seconds)}{memory}."
        )


def write_page(found: Exploration) -> str:
    """Return the page of an exploration."""
    numbers = {word: i for i, word in enumerate(found.vocabulary.words)}
    telling = list(dict.fromkeys(numbers[topic.words[0]] for topic in found.topics))
    # The word that the page shows first is the most telling one on the map.
    n_shown = 0 if found.space is None else len(found.space.points) or len(found.space.near)
    bokeh = Resources(mode="inline", components=["bokeh"])
    return ENVIRONMENT.get_template("page.html").render(
        found=found,
        vocabulary=found.vocabulary,
        frequent=range(1, min(N_FREQUENT, len(found.vocabulary.words) - 1) + 1),
        n_listed=0 if found.space is None else len(found.space.near),
        color=lambda group: NO_GROUP if group < 0 else COLORS[group % len(COLORS)],
        marked=marked,
        excerpt=excerpt,
        names=_names,
        groups=[] if found.classes is None else _groups(found.classes.tree),
        data=page_data(found),
        bokeh=Markup("\n".join(bokeh.js_raw)),  # noqa: S704
        versions=[("Python", platform.python_version()), *((name, version(name)) for name in PACKAGES)],
        arguments=_arguments(found.settings),
        telling=telling,
        first_word=next((i for i in telling if i <= n_shown), min(1, n_shown)),
    )


def page_data(found: Exploration) -> dict[str, Any]:
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
        data["codes"] = classes.codes[: len(data["words"])]
    if found.documents is not None:
        shown = found.documents
        rows = shown.nearest.keys() | {row for near in shown.nearest.values() for row, _ in near}
        data["documents"] = {row: [shown.texts[row][0], excerpt(shown.texts[row][1])] for row in sorted(rows)}
        data["nearest"] = shown.nearest
        data["sample"] = shown.sample
    return data | {"plots": plots}


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


def _arguments(settings: dict[str, Any]) -> str:
    """Return the arguments of a call that finds the same; sizes are those that are left after the rule."""
    sources = settings["sources"]
    first = "texts=texts" if sources is None else repr(sources[0] if len(sources) == 1 else sources)
    given = [f"{name}={settings[name]!r}" for name in ("unit", "field", "seed") if name in settings]
    return ", ".join([first, *given])


def _names(found: Exploration, branch: Branch, n: int) -> list[str]:
    """Return words that stand for a branch: the first of a class, or one of each of the largest classes below."""
    if branch.branches:
        largest = sorted(leaves(branch), key=lambda leaf: -leaf.n_tokens)[:n]
        return [found.vocabulary.words[leaf.words[0]] for leaf in largest]
    return [found.vocabulary.words[i] for i in branch.words[:n].tolist()]


def _groups(branch: Branch) -> list[Branch]:
    """Return the branches that have colors, from left to right."""
    return [branch] if branch.group >= 0 else [one for part in branch.branches for one in _groups(part)]
