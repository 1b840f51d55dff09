"""The page ``/spectral`` as HTML: a card with curves for each running fit, and a table of finished fits."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.models.widgets.markups import Div
from distributed import Scheduler
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dspectral.engine.around.events import format_pass_number
from dspectral.quantities import format_bytes
from dspectral.watch.history import CLIENT_SECONDS, FitHistory, FitState, PassState, format_clock

MAX_CARDS = 4
"""Maximum number of fits with a card, the newest first."""
UPDATE_MILLISECONDS = 700
"""Milliseconds between two updates of an open page."""
MAX_BARS = 16
"""Maximum number of passes in a card; earlier ones are counted."""
MAX_ENDED = 12
"""Maximum number of fits in the table of finished fits."""
_OPTIONS: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
_TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, **_OPTIONS)
MACROS: Any = _TEMPLATES.get_template("cards.html").module


def render_card(record: FitHistory, root: FitState, now: float) -> str:
    """Return the card of a fit as HTML: name, state and numbers, its passes, and the merge tree of one pass."""
    fits = record.get_family(root)
    inner = next((fit.name for fit in reversed(fits[1:]) if fit.is_running), "")
    passes = [state for state in sort_passes(fits) if state.started is not None]
    running = [state for state in passes if state.is_running]
    trees = [state for state in passes if state.started and state.started.n_levels]
    newest = next(reversed(running or trees or passes), None)
    work, seconds = record.get_client_work(root, now)
    bars = list(_make_bars(passes[-MAX_BARS:], fits, seconds))
    bars += [("not started", 0.0, "")] * min(sum(map(_count_remaining, fits)), MAX_BARS)
    return str(
        MACROS.card(
            " > ".join(filter(None, (root.name, inner))),
            *_describe_state(root, now),
            [
                *_make_chips(fits, root, newest),
                *([("computing in the client", f"{work}, {format_clock(seconds)}", "warm")] if work else []),
                *_make_warnings(record, fits, root),
            ],
            max(0, len(passes) - MAX_BARS),
            bars,
            _make_tree(newest),
            list(_make_curves(root)),
        )
    )


def render_finished(record: FitHistory) -> str:
    """Return the table of finished fits as HTML."""
    ended_roots = [root for root in record.get_roots() if root.until is not None]
    ended_roots = sorted(ended_roots, key=lambda root: root.until or 0.0, reverse=True)[:MAX_ENDED]
    return str(MACROS.finished([_make_row(record, root) for root in ended_roots])) if ended_roots else ""


def sort_passes(fits: list[FitState]) -> list[PassState]:
    """Return the passes of some fits in order of their start."""
    return sorted((state for fit in fits for state in fit.passes.values()), key=lambda state: state.order)


def _describe_state(root: FitState, now: float) -> tuple[str, str]:
    """Return the failure of a fit, or an empty text, and its state."""
    if root.is_running:
        return "", f"running, {format_clock(now - root.since)}"
    seconds = root.ended.seconds if root.ended else (root.until or now) - root.since
    if root.client_left:
        return "client disconnected", f"after {format_clock(seconds)}"
    if root.ended and root.ended.error:
        return root.ended.error, f"after {seconds:,.1f} s"
    return "", f"finished in {seconds:,.1f} s"


def _make_chips(fits: list[FitState], root: FitState, state: PassState | None) -> list[tuple[str, str, str]]:
    chips = []
    if state is not None and state.started is not None and state.is_running:
        started, rate = state.started, state.get_rate()
        owner = next((fit for fit in fits if state.run in fit.passes), root)
        title = format_pass_number(started.number, owner.n_passes) or "step"
        chips.append((title, f"{started.name}, {state.share:.0%}", ""))
        if rate:
            share = rate / started.n_blocks
            speeds = [f"{rate:,.3g} blocks/s"]
            speeds += [f"{share * started.n_rows:,.0f} rows/s"] if started.n_rows else []
            speeds += [f"{format_bytes(round(share * started.n_bytes))}/s"] if started.n_bytes else []
            chips.append(("speed", ", ".join(speeds), ""))
        if left := owner.get_seconds_left(state):
            times = list(dict.fromkeys(map(format_clock, left)))
            chips.append(("left", " of this pass, ".join(times) + " of all" * (len(times) > 1), ""))
        if state.last_task:
            chips.append(("last task, on one worker", state.last_task, ""))
    if root.bounds:
        chips.append(("certificate", f"{root.bounds[-1][1]:.3g} relative", ""))
    n_bytes, limit = root.memory
    if root.is_running and n_bytes:
        chips.append(("workers", format_bytes(n_bytes) + (f" of {format_bytes(limit)}" if limit else ""), ""))
    return chips


def _make_warnings(record: FitHistory, fits: list[FitState], root: FitState) -> list[tuple[str, str, str]]:
    lost, loops = _format_lost(fits, root), sorted(record.get_compiling_loops()) if root.is_running else []
    names = ", ".join(loops[:3]) + f" and {len(loops) - 3} more" * (len(loops) > 3)
    chips = [("lost", lost), ("compiling", f"{names} (once, then cached on disk)" if loops else "")]
    return [(name, text, "warm") for name, text in chips if text]


def _format_lost(fits: list[FitState], root: FitState) -> str:
    n_tasks = sum(state.n_redone for state in sort_passes(fits))
    workers = f"{root.lost_workers} worker{'s' * (root.lost_workers != 1)}" if root.lost_workers else ""
    tasks = f"{n_tasks} task{'s' * (n_tasks != 1)} run again" if n_tasks else ""
    return ", ".join(filter(None, (workers, tasks)))


def _count_remaining(fit: FitState) -> int:
    if not fit.is_running or fit.n_passes is None:
        return 0
    numbers = [state.started.number or 0 for state in fit.passes.values() if state.started]
    return max(0, fit.n_passes - max(numbers, default=0))


def _make_bars(passes: list[PassState], fits: list[FitState], seconds: float) -> Iterator[tuple[str, float, str]]:
    """Yield the bars of passes and of the client's work between them; `seconds`: its work since the last pass."""
    until = math.inf
    for state in passes:
        if state.since - until >= CLIENT_SECONDS:
            yield f"client, {state.since - until:,.1f} s", 1.0, "client"
        yield _make_bar(state, fits)
        until = state.until
    if seconds:
        yield f"client, {seconds:,.0f} s", 1.0, "client"


def _make_bar(state: PassState, fits: list[FitState]) -> tuple[str, float, str]:
    started = state.started
    prefix = "" if started is None or started.number is None else f"{started.number} "
    owner = next((f"{fit.name}: " for fit in fits[1:] if state.run in fit.passes), "")
    progress = f"{state.ended.seconds:,.1f} s" if state.ended else f"{state.share:.0%}"
    kind = "bad" if state.ended and state.ended.error else ("runs" if state.is_running else "")
    return f"{owner}{prefix}{started.name if started else ''}, {progress}", state.share, kind


def _make_tree(state: PassState | None) -> dict[str, Any] | None:
    """Return the title and bars of a pass, one bar per level: the last merge on top, blocks at the bottom."""
    if state is None or state.started is None:
        return None
    started, levels = state.started, []
    n_repeated = state.counts.again if state.ended is None else [0] * len(state.totals)
    for level, (done, total, redone) in enumerate(zip(state.done, state.totals, n_repeated, strict=True)):
        parts = [(0, done - redone, "done"), (done - redone, done, "again"), (done, total, "todo")]
        bar = [(start / total, end / total, kind) for start, end, kind in parts if end > start]
        name = f"level {level}" if level else "blocks"
        levels.append((name, f"{done:,}", f"{total:,}", f"{redone:,}" if redone else "", bar))
    shape = f"{started.fan_in} summaries a merge" if started.fan_in else "no merges"
    return {"title": f"{started.label}: {started.n_blocks:,} blocks, {shape}", "levels": levels[::-1]}


def _make_row(record: FitHistory, root: FitState) -> tuple[str, ...]:
    fits = record.get_family(root)
    return (
        root.name,
        time.strftime("%H:%M:%S", time.localtime(root.until)),
        str(root.ended.n_passes if root.ended else len(sort_passes(fits))),
        f"{root.ended.seconds:,.1f}" if root.ended else "",
        f"{root.bounds[-1][1]:.3g}" if root.bounds else "",
        _format_lost(fits, root),
        "client disconnected" if root.client_left else (root.ended.error if root.ended else ""),
    )


def _make_curves(root: FitState) -> Iterator[tuple[str, str, str, str]]:
    """Yield the title, extreme values and points in percent of each curve over time, on a logarithmic scale."""
    series = {"Blocks a second": root.rates, "Relative certificate of the rows read so far": root.bounds}
    for title, points in series.items():
        times, values = np.array([point for point in points if point[1] > 0]).reshape(-1, 2).T
        if len(values) > 1:
            x, y = (100 * (z - z.min()) / max(np.ptp(z), 1e-9) for z in (times, -np.log(values)))
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
            yield title, f"{values.min():.3g}", f"{values.max():.3g}", path


def render_page(record: FitHistory, now: float) -> str:
    """Return the page as HTML: cards of running fits, or else of the last finished one, and the finished fits."""
    fits = select_fits(record)
    hints = [] if any(root.is_running for root in fits) else [MACROS.last() if fits else MACROS.nothing()]
    return "".join([*map(str, hints), *(render_card(record, root, now) for root in fits), render_finished(record)])


def select_fits(record: FitHistory) -> list[FitState]:
    """Return the fits to show as cards: running ones, or else the last finished one."""
    roots = record.get_roots()
    running = [root for root in roots if root.is_running][::-1]
    ended_roots = sorted((root for root in roots if root.until is not None), key=lambda root: root.until or 0.0)
    return running[:MAX_CARDS] or ended_roots[-1:]


def fill_document(record: FitHistory, _scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a Bokeh document for a visitor."""
    page = Div(sizing_mode="stretch_width", stylesheets=[str(MACROS.style())], styles={"padding": "4px 14px"})

    def update() -> None:
        page.text = render_page(record, time.time())

    update()
    doc.title = "Dask: spectral"
    doc.add_root(page)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME
    doc.add_periodic_callback(update, UPDATE_MILLISECONDS)
