"""An exploration as one HTML page that needs no other file, with interactive pictures made by Bokeh."""

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

import numpy as np
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, DataRange1d, HoverTool, TapTool
from bokeh.plotting import figure
from bokeh.resources import Resources
from dask.utils import format_bytes, format_time
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import NDArray

from dspectral.exploring.documents import excerpt
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
)
from dspectral.paths import expand_path
from dspectral.text.cutting import word_pattern
from dspectral.types import FloatArray

N_FREQUENT = 60
PACKAGES = ("dspectral", "numpy", "scipy", "dask", "zarr", "scikit-learn", "numba", "bokeh")


def _two_digits(shown: str) -> str:
    """Return a number of Dask's and its unit without decimals, but for one below 10.

    >>> _two_digits("837.52 MiB"), _two_digits("2.74 MiB"), _two_digits("1m 14s")
    ('838 MiB', '2.7 MiB', '1m 14s')
    """
    number, _, unit = shown.partition(" ")
    known = float(number) if number.replace(".", "").isdigit() else None
    return shown if known is None else f"{known:.{1 if known < 10 and '.' in number else 0}f} {unit}"


def shown_bytes(n: int) -> str:
    """Return a number of bytes as a reader takes it."""
    return _two_digits(format_bytes(n))


def shown_time(seconds: float) -> str:
    """Return seconds as a reader takes them."""
    return _two_digits(format_time(seconds))


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
ENVIRONMENT.filters |= {"thousands": "{:,}".format, "size": shown_bytes, "time": shown_time}


@dataclass(repr=False)
class Exploration:
    """Findings of :func:`explore` in a text, as a page to look at.

    Attributes
    ----------
    name : str
        Title of the page, the name of the first source; set it to another before the page is written.
    size : dict
        ``documents``, ``sentences``, ``tokens``, ``types`` and ``bytes`` of the text, these None where unknown.
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
        Why a part is None, by its name, and what else was left out.
    warning : str
        What is odd about the text; empty if nothing is.
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
    warning: str = ""
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
        target = Path(expand_path(path))
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
        stored = "" if size["bytes"] is None else f" ({shown_bytes(size['bytes'])} as stored)"
        texts, tokens, rows = (
            sum(stage.passes for stage in self.stages if stage.reads == reads)
            for reads in (TEXT, TOKENS, ROWS)
        )
        memory = (
            f" and at most {shown_bytes(self.peak_memory_bytes)} of memory" if self.peak_memory_bytes else ""
        )
        return (
            f"{size['documents']:,} documents with {size['tokens']:,} words, {size['types']:,} of them different"
            f"{stored}: read {texts} times as text, {tokens} times as numbered words and {rows} times as counts, in "
            f"{shown_time(self.seconds)}{memory}."
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
    """Return an excerpt in which some words are set in bold, everything else escaped."""
    cut = excerpt(text, words)
    parts, at = [], 0
    for word in word_pattern().finditer(cut):
        if word[0].lower() in words:
            parts += [escape(cut[at : word.start()]), Markup("<b>{}</b>").format(word[0])]
            at = word.end()
    return Markup().join([*parts, escape(cut[at:])])


def _arguments(settings: dict[str, Any]) -> str:
    """Return the arguments of a call that finds the same; sizes are those that are left after the rule."""
    sources = settings["sources"]
    first = "texts=texts" if sources is None else repr(sources[0] if len(sources) == 1 else sources)
    given = [f"{name}={settings[name]!r}" for name in ("unit", "field", "tokens", "seed") if name in settings]
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


COLORS = (
    "#4e79a7", "#e1812c", "#3a923a", "#d4494b", "#8d69b8", "#9c755f",
    "#e377c2", "#7f8a93", "#a8a227", "#2fa3ad", "#8cc152", "#d9ab00",
)  # fmt: skip
"""One for each group of classes: readable on light and on dark."""
NO_GROUP = "#8a9199"
INK = "#80868c"
"""Axes and numbers: a gray that is read on white and on black, so that a page need not draw a plot twice."""
ACCENT = "#4e79a7"
N_LABELS = 90
"""Words written on the map; the others show their name under the pointer."""
TOOLTIP = '<div style="font:13px system-ui,sans-serif;color:#1c2024;max-width:16rem">{}</div>'


def quiet_figure(**settings: Any) -> figure:
    """Return a figure as wide as the page, without a frame and without a color of its own behind it."""
    plot = figure(
        sizing_mode="stretch_width",
        toolbar_location=settings.pop("toolbar_location", None),
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_right=12,
        **settings,
    )
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = axis.major_label_text_color = INK
        axis.axis_label_text_color, axis.axis_label_text_font_style = INK, "normal"
        axis.minor_tick_line_alpha = 0
        axis.major_label_text_font_size = axis.axis_label_text_font_size = "12px"
    plot.grid.grid_line_color, plot.grid.grid_line_alpha = INK, 0.18
    return plot


def zipf_plot(vocabulary: Vocabulary) -> figure:
    """Draw the count of each type against its rank, both on logarithmic scales."""
    plot = quiet_figure(
        height=300,
        x_axis_type="log",
        y_axis_type="log",
        tools="",
        x_axis_label="rank of the word",
        y_axis_label="times it occurs",
    )
    ranks, counts = vocabulary.ranks, vocabulary.rank_counts
    source = ColumnDataSource({"rank": ranks, "count": counts, "word": vocabulary.rank_words})
    plot.line("rank", "count", source=source, color=ACCENT, line_width=1.5)
    points = plot.scatter("rank", "count", source=source, size=6, color=ACCENT, alpha=0.55)
    law = counts[0] / ranks
    plot.line(ranks[law >= 1], law[law >= 1], color=INK, line_dash="dashed", alpha=0.7)
    tip = TOOLTIP.format("<b>@word</b><br>@count{0,0} times, rank @rank{0,0}")
    plot.add_tools(HoverTool(renderers=[points], tooltips=tip))
    for axis in plot.axis:
        axis.formatter = CustomJSTickFormatter(code="return tick.toLocaleString('en')")
    return plot


def map_plot(vocabulary: Vocabulary, space: WordSpace, classes: Classes | None) -> figure:
    """Draw the map of words: a point for each frequent word, colored by its group of classes."""
    known = _map_columns(vocabulary, space, classes)
    source = ColumnDataSource(known, name="words")
    plot = quiet_figure(
        height=620,
        tools="pan,wheel_zoom,box_zoom,reset",
        toolbar_location="above",
        x_range=DataRange1d(range_padding=0.16),
        y_range=DataRange1d(range_padding=0.12),
    )
    plot.axis.visible, plot.grid.visible = False, False
    points = plot.scatter(
        "x", "y", source=source, size="size", color="color", alpha=0.7, line_width=0, nonselection_alpha=0.7
    )
    _label(plot, space.points, known["word"])
    found = ColumnDataSource({"x": [], "y": [], "word": []}, name="found")
    plot.scatter("x", "y", source=found, size=20, fill_alpha=0, line_width=3, line_color="#d4494b")
    named: dict[str, Any] = {"text_font_size": "15px", "text_font_style": "bold", "text_color": "#d4494b"}
    plot.text("x", "y", text="word", source=found, x_offset=13, y_offset=6, **named)
    tip = TOOLTIP.format("<b>@word</b> &middot; @count{0,0} times &middot; class @code<br>@near")
    plot.add_tools(HoverTool(renderers=[points], tooltips=tip), TapTool(renderers=[points]))
    plot.toolbar.autohide = False
    plot.toolbar.logo = None
    return plot


def _map_columns(vocabulary: Vocabulary, space: WordSpace, classes: Classes | None) -> dict[str, Any]:
    """Return what the map and its tooltips know of each word, by the names that the page's script reads."""
    # Type 0 stands for all rare words together, and has no point.
    n = len(space.points)
    counts, words = vocabulary.counts[1 : n + 1], vocabulary.words[1 : n + 1]
    groups = np.full(n, -1) if classes is None else classes.groups[1 : n + 1]
    color = [NO_GROUP if g < 0 else COLORS[g % len(COLORS)] for g in groups.tolist()]
    # Counts of words fall as 1 / rank: sizes as their logarithms, else a few words would cover all others. Adding 1
    # and 2 keeps both logarithms above zero where all counts are equal.
    size = np.round(
        4 + 9 * np.sqrt(np.log(counts / counts.min() + 1) / np.log(counts.max() / counts.min() + 2)), 1
    )
    code = [""] * n if classes is None else classes.codes[1 : n + 1]
    near = [", ".join(vocabulary.words[i] for i in row[:5].tolist()) for row in space.near[:n]]
    x, y = space.points.T
    known = {"x": x, "y": y, "word": words, "count": counts}
    return {**known, "color": color, "size": size, "code": code, "near": near}


def _label(plot: figure, points: FloatArray, words: list[str]) -> None:
    """Write the names of frequent words where there is room; the page's script keeps fewer on a narrow screen."""
    lengths = [len(word) for word in words]
    wide, narrow = roomy(points, lengths, width=650), roomy(points, lengths, width=340)
    chosen = np.union1d(wide, narrow)
    x, y = points[chosen].T
    names = [words[i] for i in chosen.tolist()]
    on = {"wide": np.isin(chosen, wide), "narrow": np.isin(chosen, narrow)}
    source = ColumnDataSource({"x": x, "y": y, "word": names, **on})
    style: dict[str, Any] = {"text_font_size": "12px", "text_color": INK, "text_align": "center"}
    plot.text("x", "y", text="word", source=source, y_offset=-4, name="labels", **style)


def roomy(points: FloatArray, lengths: list[int], *, width: int) -> NDArray[np.int64]:
    """Choose points, the first ones first, whose names do not overlap. Shapes: `points` (n, 2)."""
    boxes: list[tuple[float, float, float]] = []
    chosen = []
    letter = 6 * 100 / width  # half of a letter of 6 pixels, in the points' unit
    # Invariant: no two of `boxes` overlap. Greedy in the order of the words' counts, at most N_LABELS comparisons a
    # point; 6.5 is the height of a line in the points' unit.
    for i, ((x, y), length) in enumerate(zip(points.tolist(), lengths, strict=True)):
        half = letter * (length + 1)
        if all(abs(x - a) > half + other or abs(y - b) > 6.5 for a, b, other in boxes):
            boxes.append((x, y, half))
            chosen.append(i)
        if len(chosen) == N_LABELS:
            break
    return np.array(chosen, dtype=np.int64)
