"""The document behind ``/spectral``: cards of the fits that run, and a table of those that are over."""

import time
from importlib.resources import files
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column
from bokeh.models.widgets.markups import Div
from distributed import Scheduler
from distributed.dashboard.components.scheduler import BOKEH_THEME, env

from dspectral.dashboard import words
from dspectral.dashboard.pictures import Pictures
from dspectral.dashboard.records import Records
from dspectral.dashboard.states import FitState

MOST_CARDS = 4
"""Fits that are shown in full; the newest go first."""
INTERVAL = 700
"""Milliseconds between two updates of a page that somebody looks at."""


class Card:
    """One fit in full."""

    def __init__(self) -> None:
        self.head, self.passes, self.tree = _text(), _text(), _text()
        self.pictures = Pictures()
        self.root = column(
            self.head,
            self.passes,
            self.tree,
            self.pictures.root,
            sizing_mode="stretch_width",
            styles={"border-bottom": "1px solid #d0d7de", "padding": "4px 14px 14px"},
        )

    def update(self, records: Records, root: FitState, now: float) -> None:
        """Show a fit."""
        members = records.family(root)
        _say(self.head, words.head(records, root, now))
        _say(self.passes, words.pass_bars(members))
        _say(self.tree, words.tree(words.newest_pass(members)))
        self.pictures.update(root, now)
        self.root.visible = True


class Page:
    """All cards, and what is over."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._empty, self._over = _text(), _text()
        self._cards: list[Card] = []
        self._column = column(sizing_mode="stretch_width")
        self.root = column(
            column(self._empty, sizing_mode="stretch_width", styles={"padding": "4px 14px"}),
            self._column,
            column(self._over, sizing_mode="stretch_width", styles={"padding": "4px 14px"}),
            sizing_mode="stretch_width",
        )

    def update(self) -> None:
        """Show what is new."""
        now = time.time()
        shown = shown_fits(self._records)
        self._empty.visible = not any(root.is_running for root in shown)
        _say(self._empty, words.LAST if shown else words.NOTHING)
        if len(self._cards) < len(shown):
            self._cards += [Card() for _ in range(len(shown) - len(self._cards))]
            self._column.children = [card.root for card in self._cards]
        for card, root in zip(self._cards, shown, strict=False):
            card.update(self._records, root, now)
        for card in self._cards[len(shown) :]:
            card.root.visible = False
        _say(self._over, words.ended(self._records))


def shown_fits(records: Records) -> list[FitState]:
    """Return the fits that are shown in full."""
    roots = records.roots()
    running = [root for root in roots if root.is_running][::-1]
    over = sorted((root for root in roots if root.until is not None), key=lambda root: root.until or 0.0)
    return running[:MOST_CARDS] or over[-1:]


def show(records: Records, _scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a document, as Bokeh's server asks for each visitor."""
    page = Page(records)
    page.update()
    doc.title = "Dask: spectral"
    doc.add_root(page.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME
    doc.add_periodic_callback(page.update, INTERVAL)


def _text(html: str = "") -> Div:
    style = files("dspectral.dashboard").joinpath("page.css").read_text(encoding="utf-8")
    return Div(text=html, sizing_mode="stretch_width", stylesheets=[style])


def _say(text: Div, html: str) -> None:
    if text.text != html:
        text.text = html
