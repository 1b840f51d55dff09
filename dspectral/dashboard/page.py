"""The page ``/spectral`` as HTML: a card for each running fit, and a table of finished fits."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.models.widgets.markups import Div
from distributed import Scheduler
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dspectral.quantities import format_bytes
from dspectral.watch.display import format_counts, format_times, get_phases
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


def render_card(fit: FitState, now: float, memory: str = "") -> str:
    """Return the card of a fit as HTML: name, state and numbers, its passes, and the tasks of the newest one."""
    passes, newest = list(fit.passes), fit.passes[-1]
    work, seconds = fit.get_client_work(now)
    bars = [*_make_bars(passes[-MAX_BARS:], seconds), *[("not started", 0.0, "")] * min(fit.n_remaining, MAX_BARS)]
    names = " > ".join(newest.started.fit_names if fit.until is None else ()) or fit.name
    chips = [*_make_chips(fit, newest, now), ("computing in the client", work and f"{work}, {format_clock(seconds)}")]
    chips += [("workers", memory if fit.until is None else "")]
    warm = ("lost", "computing in the client")
    kinds = [(name, text, "warm" if name in warm else "") for name, text in chips if text]
    n_earlier = max(0, len(passes) - MAX_BARS)
    return str(MACROS.card(names, *_describe_state(fit, now), kinds, n_earlier, bars, _make_tasks(newest)))


def render_finished(fits: list[FitState]) -> str:
    """Return the table of finished fits as HTML, the newest first."""
    return str(MACROS.finished([_make_row(fit) for fit in fits[: -MAX_ENDED - 1 : -1]])) if fits else ""


def _get_failure(fit: FitState) -> str:
    if fit.ended is None:
        return "client disconnected" if fit.until is not None and fit.passes[-1].started.fits else ""
    return fit.ended.error


def _describe_state(fit: FitState, now: float) -> tuple[str, str]:
    """Return the failure of a fit, or an empty text, and its state."""
    seconds = (now if fit.until is None else fit.until) - fit.since
    if fit.until is None:
        return "", f"running, {format_clock(seconds)}"
    failure = _get_failure(fit)
    return failure, f"{'after' if failure else 'finished in'} {seconds:,.1f} s"


def _make_chips(fit: FitState, state: PassState, now: float) -> Iterator[tuple[str, str]]:
    if state.ended is None:
        yield state.started.number_label or "step", f"{state.started.name}, {state.share:.0%}"
        blocks = get_phases(state, now)[0]
        yield "blocks", format_counts(blocks)
        yield "time", format_times(blocks)
        yield "last task, on one worker", state.last_task
    if fit.ended and fit.ended.certificate is not None:
        yield "certificate", f"{fit.ended.certificate:.3g} relative"
    yield "lost", _get_repeated(fit)


def _get_repeated(fit: FitState) -> str:
    return "; ".join(f"{state.started.name}: {state.repeated}" for state in fit.passes if state.repeated)


def _make_bars(passes: list[PassState], seconds: float) -> Iterator[tuple[str, float, str]]:
    """Yield the bars of passes and of the client's work between them; `seconds`: its work since the last pass."""
    until = passes[0].since
    for state in passes:
        if state.since - until >= CLIENT_SECONDS:
            yield f"client, {state.since - until:,.1f} s", 1.0, "client"
        started, until = state.started, state.until
        inner = f"{started.fit_names[-1]}: " if len(started.fit_names) > 1 else ""
        number = f"{started.number} " if started.number else ""
        progress = f"{state.ended.seconds:,.1f} s" if state.ended else f"{state.share:.0%}"
        kind = "bad" if state.ended and state.ended.error else ("" if state.ended else "runs")
        yield f"{inner}{number}{started.name}, {progress}", state.share, kind
    if seconds:
        yield f"client, {seconds:,.0f} s", 1.0, "client"


def _make_tasks(state: PassState) -> dict[str, Any]:
    """Return the title and bars of a pass: its merges on top, its blocks at the bottom."""
    started, done = state.started, state.done
    counts = [("merges", done.n_merges, started.n_merges), ("blocks", done.n_blocks, started.n_blocks)]
    levels = [(name, f"{n:,}", f"{total:,}", n / total) for name, n, total in counts if total]
    shape = f"{len(started.merge_groups)} levels of merges" if started.merge_groups else "no merges"
    return {"title": f"{started.label}: {started.n_blocks:,} blocks, {shape}", "levels": levels}


def _make_row(fit: FitState) -> tuple[str, ...]:
    ended = fit.ended
    return (
        fit.name,
        time.strftime("%H:%M:%S", time.localtime(fit.until)),
        str(ended.n_passes if ended else len(fit.passes)),
        f"{(fit.until or fit.since) - fit.since:,.1f}",
        f"{ended.certificate:.3g}" if ended and ended.certificate is not None else "",
        _get_repeated(fit),
        _get_failure(fit),
    )


def render_page(history: FitHistory, now: float, memory: str = "") -> str:
    """Return the page as HTML: cards of running fits, or else of the last finished one, and the finished fits.

    `memory`: memory of the workers, as text.
    """
    with history.lock:
        running = history.get_running()[: -MAX_CARDS - 1 : -1]
        ended = sorted(
            (fit for fit in history.fits.values() if fit.until is not None), key=lambda fit: fit.until or 0.0
        )
        hint = "" if running else str(MACROS.last() if ended else MACROS.nothing())
        cards = [render_card(fit, now, memory) for fit in running or ended[-1:]]
        return "".join([hint, *cards, render_finished(ended)])


def fill_document(history: FitHistory, scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a Bokeh document for a visitor."""
    page = Div(sizing_mode="stretch_width", stylesheets=[str(MACROS.style())], styles={"padding": "4px 14px"})

    def update() -> None:
        limit = sum(int(worker.memory_limit or 0) for worker in scheduler.workers.values())
        memory = format_bytes(scheduler.memory.process) + (f" of {format_bytes(limit)}" if limit else "")
        page.text = render_page(history, time.time(), memory)

    update()
    doc.title = "Dask: spectral"
    doc.add_root(page)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME
    doc.add_periodic_callback(update, UPDATE_MILLISECONDS)
