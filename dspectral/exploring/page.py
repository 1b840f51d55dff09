"""Render an exploration as one self-contained HTML page with interactive Bokeh plots."""

import dataclasses
import platform
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

from dspectral.exploring.documents import cut_excerpt
from dspectral.exploring.findings import (
    ROWS,
    TEXT,
    TOKENS,
    Branch,
    Classes,
    DocumentMap,
    ExploredDocuments,
    ExploredTopic,
    Stage,
    TopicsBy,
    WordFrequencies,
    WordSpace,
    get_leaves,
)
from dspectral.paths import expand_path
from dspectral.text.token_rules import word_pattern
from dspectral.types import FloatArray, Int64s

N_FREQUENT_WORDS = 60
PACKAGES = ("dspectral", "numpy", "scipy", "dask", "zarr", "scikit-learn", "numba", "bokeh")


ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
ENVIRONMENT.filters |= {"thousands": "{:,}".format, "size": format_bytes, "time": format_time}


@dataclass(repr=False)
class Exploration:
    """Findings of :func:`explore`, rendered as an HTML page.

    Attributes
    ----------
    name : str
        Title of the page, by default the name of the first source.
    size : dict
        ``documents``, ``sentences``, ``tokens``, ``types`` and ``bytes`` of the text; ``bytes`` may be None.
    settings : dict
        Settings of the run, with the sizes that were used.
    vocabulary : Vocabulary
        Frequent words.
    topics : list of Topic
        Topics by descending share times coherence, those with a subject first; empty if the text has too few documents
        or words.
    documents : Documents or None
        Documents of the page.
    document_map : DocumentMap or None
        Map of a sample of documents.
    topics_by : TopicsBy or None
        Mean shares of topics in the groups of ``by``.
    space : WordSpace or None
        Nearest words and the map of words.
    classes : Classes or None
        Brown classes of words.
    missing : dict of str to str
        Reasons for missing parts, by the name of the part.
    masked : dict of str to int
        Number of parts of the text that were masked, by rule of ``clean``.
    function_words : list of str
        Words that are excluded from topics: those of a list of stop words of the language, and words whose documents
        are hardly more alike than shuffled ones.
    language : str
        Languages whose lists of stop words were used; empty if there is none.
    stem_length : int or None
        Number of first letters by which topics count words as one; None for whole words.
    n_repeated : int
        Number of documents that have the same frequent words as an earlier one; topics do not count them.
    warning : str
        Warning about the tokens of the text; empty if there is none.
    stages : list of Stage
        Finished steps with their times.
    seconds : float
        Wall-clock time.
    peak_memory_bytes : int
        Peak memory of this process since it started, or a caller's measurement; 0 if unknown.
    """

    name: str
    size: dict[str, int | None]
    settings: dict[str, Any]
    vocabulary: WordFrequencies
    topics: list[ExploredTopic] = dataclasses.field(default_factory=list)
    documents: ExploredDocuments | None = None
    document_map: DocumentMap | None = None
    topics_by: TopicsBy | None = None
    space: WordSpace | None = None
    classes: Classes | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    masked: dict[str, int] = dataclasses.field(default_factory=dict)
    function_words: list[str] = dataclasses.field(default_factory=list)
    language: str = ""
    stem_length: int | None = None
    n_repeated: int = 0
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
            HTML that needs no other file and no network.
        """
        return render_page(self)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page.

        Parameters
        ----------
        path : str or path
            File to write, for example ``explore.html``.

        Returns
        -------
        Path
            The written file.
        """
        target = Path(expand_path(path))
        target.write_text(self.html(), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """Return the page in an iframe, which separates its style from that of the notebook."""
        frame = "width:100%;height:80vh;min-height:480px;border:1px solid #8884"
        return f'<iframe title="dspectral explore" style="{frame}" srcdoc="{escape(self.html())}"></iframe>'

    def sentence(self) -> str:
        """Return a sentence with the size of the text and the cost of the run.

        Returns
        -------
        str
            The sentence at the top of the page.
        """
        size = self.size
        n_bytes = "" if size["bytes"] is None else f" ({format_bytes(size['bytes'])})"
        n_text_reads, n_token_reads, n_count_reads = (
            sum(stage.n_passes for stage in self.stages if stage.reads == reads) for reads in (TEXT, TOKENS, ROWS)
        )
        memory = f", peak memory {format_bytes(self.peak_memory_bytes)}" if self.peak_memory_bytes else ""
        return (
            f"{size['documents']:,} documents with {size['tokens']:,} words, {size['types']:,} of them different"
            f"{n_bytes}. Passes: {n_text_reads} over the text, {n_token_reads} over word ids, {n_count_reads} over "
            f"counts; time {format_time(self.seconds)}{memory}."
        )


def render_page(exploration: Exploration) -> str:
    """Return the HTML page of an exploration."""
    word_ids = {word: i for i, word in enumerate(exploration.vocabulary.words)}
    topic_words = list(dict.fromkeys(word_ids[topic.words[0]] for topic in exploration.topics))
    n_selectable = 0 if exploration.space is None else len(exploration.space.points) or len(exploration.space.near)
    bokeh = Resources(mode="inline", components=["bokeh"])
    return ENVIRONMENT.get_template("page.html").render(
        exploration=exploration,
        vocabulary=exploration.vocabulary,
        frequent=range(1, min(N_FREQUENT_WORDS, len(exploration.vocabulary.words) - 1) + 1),
        n_listed=0 if exploration.space is None else len(exploration.space.near),
        color=lambda group: NO_GROUP if group < 0 else COLORS[group % len(COLORS)],
        highlight_words=highlight_words,
        excerpt=cut_excerpt,
        names=_get_example_words,
        groups=[] if exploration.classes is None else _get_colored_branches(exploration.classes.tree),
        data=get_page_data(exploration),
        bokeh=Markup("\n".join(bokeh.js_raw)),  # noqa: S704
        versions=[("Python", platform.python_version()), *((name, version(name)) for name in PACKAGES)],
        arguments=_format_arguments(exploration.settings),
        topic_words=topic_words,
        first_word=next((i for i in topic_words if i <= n_selectable), min(1, n_selectable)),
    )


def get_page_data(exploration: Exploration) -> dict[str, Any]:
    """Return the data for the script of the page: words, their neighbors, documents and plots."""
    vocabulary, space, classes = exploration.vocabulary, exploration.space, exploration.classes
    plots = {"zipf": json_item(make_zipf_plot(vocabulary))} if len(vocabulary.ranks) > 1 else {}
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
            plots["map"] = json_item(make_word_map(vocabulary, space, classes))
    if classes is not None:
        data["codes"] = classes.codes[: len(data["words"])]
    if exploration.documents is not None:
        documents = exploration.documents
        rows = documents.nearest.keys() | {row for neighbors in documents.nearest.values() for row, _ in neighbors}
        texts = {row: documents.texts[row] for row in sorted(rows)}
        data["documents"] = {row: [source, cut_excerpt(text)] for row, (source, text) in texts.items()}
        data["nearest"] = documents.nearest
        data["sample"] = documents.sample
    if exploration.document_map is not None and exploration.documents is not None:
        texts = exploration.documents.texts
        plots["documents"] = json_item(make_document_map(exploration.document_map, exploration.topics, texts))
    return data | {"plots": plots}


def highlight_words(text: str, words: Collection[str], stem_length: int | None = None) -> Markup:
    """Return an excerpt as escaped HTML, with some words and others of the same first letters in bold."""
    stems = {word[:stem_length] for word in words}
    excerpt = cut_excerpt(text, stems, stem_length)
    segments, start = [], 0
    for word in word_pattern().finditer(excerpt):
        if word[0].lower()[:stem_length] in stems:
            segments += [escape(excerpt[start : word.start()]), Markup("<b>{}</b>").format(word[0])]
            start = word.end()
    return Markup().join([*segments, escape(excerpt[start:])])


def _format_arguments(settings: dict[str, Any]) -> str:
    """Return the arguments of a call of explore with the same result, as source code."""
    sources = settings["sources"]
    source = "texts=texts" if sources is None else repr(sources[0] if len(sources) == 1 else sources)
    keywords = [
        f"{name}={settings[name]!r}"
        for name in ("unit", "field", "by", "vectors", "tokens", "seed")
        if name in settings
    ]
    return ", ".join([source, *keywords])


def _get_example_words(exploration: Exploration, branch: Branch, n: int) -> list[str]:
    """Return the most frequent words of a class, or of the largest classes of a branch."""
    if branch.branches:
        largest = sorted(get_leaves(branch), key=lambda leaf: -leaf.n_tokens)[:n]
        return [exploration.vocabulary.words[leaf.words[0]] for leaf in largest]
    return [exploration.vocabulary.words[i] for i in branch.words[:n].tolist()]


def _get_colored_branches(branch: Branch) -> list[Branch]:
    """Return the branches with a color, from left to right."""
    if branch.group >= 0:
        return [branch]
    return [colored for child in branch.branches for colored in _get_colored_branches(child)]


COLORS = (
    "#4e79a7", "#e1812c", "#3a923a", "#d4494b", "#8d69b8", "#9c755f",
    "#e377c2", "#7f8a93", "#a8a227", "#2fa3ad", "#8cc152", "#d9ab00",
)  # fmt: skip
"""Colors of groups, readable on light and dark pages."""
NO_GROUP = "#8a9199"
INK = "#80868c"
"""Gray of axes and numbers, readable on light and dark pages."""
ACCENT = "#4e79a7"
HOVER_CHARS, MIN_LABELED = 140, 5
"""Length of the excerpt of a document on the map, and minimum number of documents of a labeled topic."""
N_LABELS = 90
"""Maximum number of labels on the map; other words show theirs on hover."""
TOOLTIP = '<div style="font:13px system-ui,sans-serif;color:#1c2024;max-width:16rem">{}</div>'


def make_figure(**settings: Any) -> figure:
    """Return a transparent figure without a frame, as wide as the page."""
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


def _make_map(height: int, *padding: float) -> figure:
    """Return a figure without axes that can be zoomed; `padding`: shares of the range of x and of y."""
    ranges = (DataRange1d(range_padding=share) for share in padding)
    tools = {"tools": "pan,wheel_zoom,box_zoom,reset", "toolbar_location": "above"}
    plot = make_figure(height=height, **dict(zip(("x_range", "y_range"), ranges, strict=True)), **tools)
    plot.axis.visible, plot.grid.visible, plot.toolbar.logo = False, False, None
    return plot


def make_zipf_plot(vocabulary: WordFrequencies) -> figure:
    """Return the plot of counts of types against their ranks, on logarithmic scales."""
    labels = {"x_axis_label": "rank of the word", "y_axis_label": "times it occurs"}
    plot = make_figure(height=300, x_axis_type="log", y_axis_type="log", tools="", **labels)
    ranks, counts = vocabulary.ranks, vocabulary.rank_counts
    source = ColumnDataSource({"rank": ranks, "count": counts, "word": vocabulary.rank_words})
    plot.line("rank", "count", source=source, color=ACCENT, line_width=1.5)
    points = plot.scatter("rank", "count", source=source, size=6, color=ACCENT, alpha=0.55)
    zipf_counts = counts[0] / ranks
    plot.line(ranks[zipf_counts >= 1], zipf_counts[zipf_counts >= 1], color=INK, line_dash="dashed", alpha=0.7)
    tip = TOOLTIP.format("<b>@word</b><br>@count{0,0} times, rank @rank{0,0}")
    plot.add_tools(HoverTool(renderers=[points], tooltips=tip))
    for axis in plot.axis:
        axis.formatter = CustomJSTickFormatter(code="return tick.toLocaleString('en')")
    return plot


def make_document_map(
    document_map: DocumentMap, topics: list[ExploredTopic], texts: dict[int, tuple[str, str]]
) -> figure:
    """Return the map of documents: a point for each, colored by its largest topic, with labels of topics."""
    plot = _make_map(560, 0.08, 0.08)
    rows, points, numbers = document_map
    subjects = [topic for topic in topics if topic.has_subject]
    by_size = sorted(subjects, key=lambda topic: -int((numbers == topic.number).sum()))
    colors = {topic.number: color for topic, color in zip(by_size, COLORS, strict=False)}
    names = {topic.number: ", ".join(topic.words[:3]) for topic in subjects}
    columns: dict[str, Any] = {"x": points[:, 0], "y": points[:, 1], "row": rows + 1}
    columns["color"] = [colors.get(number, NO_GROUP) for number in numbers.tolist()]
    columns["topic"] = [names.get(number, "") for number in numbers.tolist()]
    columns["text"] = [cut_excerpt(texts[row][1], max_chars=HOVER_CHARS) for row in rows.tolist()]
    dots = plot.scatter("x", "y", source=ColumnDataSource(columns), size=6, color="color", alpha=0.65, line_width=0)
    labeled = [topic for topic in by_size if (numbers == topic.number).sum() >= MIN_LABELED]
    if labeled:
        centers = np.array([np.median(points[numbers == topic.number], axis=0) for topic in labeled])
        _add_labels(plot, centers, [", ".join(topic.words[:2]) for topic in labeled], name="document-labels")
    tip = TOOLTIP.format("<b>@topic</b><br>@text<br><small>document @row{0,0}</small>")
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tip))
    return plot


def make_word_map(vocabulary: WordFrequencies, space: WordSpace, classes: Classes | None) -> figure:
    """Return the map of words: a point for each frequent word, colored by its group of classes."""
    columns = _get_map_columns(vocabulary, space, classes)
    source = ColumnDataSource(columns, name="words")
    plot = _make_map(620, 0.16, 0.12)
    points = plot.scatter(
        "x", "y", source=source, size="size", color="color", alpha=0.7, line_width=0, nonselection_alpha=0.7
    )
    _add_labels(plot, space.points, columns["word"])
    marker = ColumnDataSource({"x": [], "y": [], "word": []}, name="marker")
    plot.scatter("x", "y", source=marker, size=20, fill_alpha=0, line_width=3, line_color="#d4494b")
    style: dict[str, Any] = {"text_font_size": "15px", "text_font_style": "bold", "text_color": "#d4494b"}
    plot.text("x", "y", text="word", source=marker, x_offset=13, y_offset=6, **style)
    tip = TOOLTIP.format("<b>@word</b> &middot; @count{0,0} times &middot; class @code<br>@near")
    plot.add_tools(HoverTool(renderers=[points], tooltips=tip), TapTool(renderers=[points]))
    plot.toolbar.autohide = False
    return plot


def _get_map_columns(vocabulary: WordFrequencies, space: WordSpace, classes: Classes | None) -> dict[str, Any]:
    """Return the data of the map and its tooltips."""
    # Word 0 represents all rare words, and has no point.
    n = len(space.points)
    counts, words = vocabulary.counts[1 : n + 1], vocabulary.words[1 : n + 1]
    groups = np.full(n, -1) if classes is None else classes.groups[1 : n + 1]
    color = [NO_GROUP if g < 0 else COLORS[g % len(COLORS)] for g in groups.tolist()]
    # Sizes grow with the logarithm of the count; adding 1 and 2 keeps logarithms positive where counts are equal.
    size = np.round(4 + 9 * np.sqrt(np.log(counts / counts.min() + 1) / np.log(counts.max() / counts.min() + 2)), 1)
    code = [""] * n if classes is None else classes.codes[1 : n + 1]
    near = [", ".join(vocabulary.words[i] for i in row[:5].tolist()) for row in space.near[:n]]
    x, y = space.points.T
    columns = {"x": x, "y": y, "word": words, "count": counts}
    return {**columns, "color": color, "size": size, "code": code, "near": near}


def _add_labels(plot: figure, points: FloatArray, words: list[str], name: str = "labels") -> None:
    """Add labels that do not overlap; the script of the page shows fewer on narrow screens."""
    lengths = [len(word) for word in words]
    wide, narrow = (select_label_positions(points, lengths, width=width) for width in (650, 340))
    labeled_points = np.union1d(wide, narrow)
    x, y = points[labeled_points].T
    names = [words[i] for i in labeled_points.tolist()]
    visible = {"wide": np.isin(labeled_points, wide), "narrow": np.isin(labeled_points, narrow)}
    source = ColumnDataSource({"x": x, "y": y, "word": names, **visible})
    style: dict[str, Any] = {"text_font_size": "12px", "text_color": INK, "text_align": "center"}
    plot.text("x", "y", text="word", source=source, y_offset=-4, name=name, **style)


def select_label_positions(points: FloatArray, lengths: list[int], *, width: int) -> Int64s:
    """Return the indices of points whose labels do not overlap, earlier points first. Shapes: `points` (n, 2)."""
    boxes: list[tuple[float, float, float]] = []
    label_positions = []
    half_letter = 6 * 100 / width  # in units of the points, 6 pixels
    # Invariant: no two of `boxes` overlap. Greedy, at most N_LABELS comparisons a point; 6.5 is the line height.
    for i, ((x, y), length) in enumerate(zip(points.tolist(), lengths, strict=True)):
        half = half_letter * (length + 1)
        if all(abs(x - a) > half + half_b or abs(y - b) > 6.5 for a, b, half_b in boxes):
            boxes.append((x, y, half))
            label_positions.append(i)
        if len(label_positions) == N_LABELS:
            break
    return np.array(label_positions, dtype=np.int64)
