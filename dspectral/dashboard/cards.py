"""The page's HTML: a card for each fit that runs, and a table of those that are over, by one template."""

import time
from typing import Any

from jinja2 import Environment, StrictUndefined

from dspectral.engine.events import pass_label
from dspectral.html import number, size_of
from dspectral.watch.record import FitState, PassState, Record

MOST_BARS = 16
"""Passes in a row; earlier ones are counted."""
MOST_CELLS = 128
"""Tasks of a level that are drawn one by one; more are one bar."""
MOST_ENDED = 12
"""Fits in the table of those that are over."""
TEMPLATE = """
{% macro nothing() %}
<h2>No fit is running</h2><p class="hint">Fits on this cluster appear here once their process tells of them: call
<code>dspectral.show_dashboard(client)</code> there, or start it with
<code>DASK_DSPECTRAL__DASHBOARD=true</code> in its environment. Rows in memory are summarized in the process
itself, and are not seen here.</p>
{% endmacro %}
{% macro last() %}<p class="hint">No fit is running. The last one:</p>{% endmacro %}
{% macro card(title, failure, state, chips, n_earlier, bars, tree) %}
<h2>{{ title }} <span class="state">
{%- if failure %}<b class="bad">{{ failure }}</b> {% endif %}{{ state }}</span></h2>
<p class="chips">
{% for name, text, kind in chips %}
<span class="chip {{ kind }}"><i>{{ name }}</i> {{ text }}</span>
{% endfor %}
</p>
<h3>Passes</h3><div class="bars">
{% if n_earlier %}<div class="earlier">{{ n_earlier }} earlier</div>{% endif %}
{% for label, share, kind in bars %}
<div class="bar {{ kind }}" title="{{ label }}"><div class="track">
<div style="width:{{ "%.1f"|format(100 * share) }}%"></div></div><span>{{ label }}</span></div>
{% else %}
<div class="earlier">no pass over blocks of this cluster yet</div>
{% endfor %}
</div>
{% if tree %}
<h3>Tasks of {{ tree.title }}</h3><div class="tree">
{% for name, done, total, again, cells in tree.levels %}
<div>{{ name }}</div><svg viewBox="0 0 1000 10" preserveAspectRatio="none">
{% for start, end, kind in cells %}
<rect class="{{ kind }}" x="{{ "%.1f"|format(1000 * start) }}" width="{{ "%.1f"|format(1000 * (end - start)) }}"
 height="10"/>
{% endfor %}
</svg><div>{{ done }} of {{ total }}{% if again %} <b class="warm">{{ again }} again</b>{% endif %}</div>
{% endfor %}
</div>
{% else %}
<h3>Merge tree</h3>
{% endif %}
{% endmacro %}
{% macro finished(rows) %}
<h3>Finished</h3><table class="over"><tr>
{% for head in ("fit", "ended", "passes", "seconds", "certificate", "lost", "") %}<th>{{ head }}</th>{% endfor %}</tr>
{% for row in rows %}
<tr>{% for figure in row[:-1] %}<td>{{ figure }}</td>{% endfor %}<td><b>{{ row[-1] }}</b></td></tr>
{% endfor %}
</table>
{% endmacro %}
{% macro style() %}
.bk-clearfix { display: block !important; width: 100%; }
:host { font: 14px/1.45 system-ui, sans-serif; color: #24292f; }
h2 { font-size: 20px; margin: 6px 0 8px; overflow-wrap: anywhere; }
h3 { font-size: 13px; margin: 10px 0 6px; color: #57606a; }
p { margin: 0 0 6px; }
code { background: #f0f2f5; padding: 1px 4px; border-radius: 3px; overflow-wrap: anywhere; }
.state { font-weight: normal; font-size: 15px; color: #57606a; white-space: nowrap; }
.hint { max-width: 48em; color: #57606a; }
.bad { color: #b3261e; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; }
.chip { background: #f0f2f5; border-radius: 12px; padding: 2px 10px; font-variant-numeric: tabular-nums; }
.chip i { color: #57606a; font-style: normal; }
.chip.warm { background: #fdebd3; }
b.warm { color: #b35c00; }
.bars { display: flex; flex-wrap: wrap; gap: 8px 10px; align-items: flex-end; }
.bar { flex: 1 1 110px; min-width: 90px; }
.bar span, .earlier { font-size: 12px; color: #57606a; }
.bar span { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.track { height: 14px; background: #e3e6ea; border-radius: 3px; overflow: hidden; }
.track div { height: 100%; background: #3b78c2; }
.bar.bad .track div { background: #b3261e; }
.tree { display: grid; grid-template-columns: 60px minmax(0, 1fr) max-content; gap: 3px 10px; align-items: center;
  font-size: 12px; color: #57606a; font-variant-numeric: tabular-nums; }
.tree svg { display: block; width: 100%; height: 14px; }
.done { fill: #3b78c2; }
.again { fill: #e07b00; }
.todo { fill: #e3e6ea; }
.over { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
.over th { text-align: left; font-weight: normal; color: #57606a; }
.over td { overflow-wrap: anywhere; }
.over th, .over td { padding: 3px 18px 3px 0; border-bottom: 1px solid #e3e6ea; vertical-align: top; }
{% endmacro %}
"""
_OPTIONS: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
MACROS: Any = Environment(autoescape=True, **_OPTIONS).from_string(TEMPLATE).module


def card(record: Record, root: FitState, now: float) -> str:
    """Return the card of a fit: name, state and figures; its passes; the tasks of one of them as a tree."""
    members = record.family(root)
    inner = next((fit.name for fit in reversed(members[1:]) if fit.is_running), "")
    passes = [one for one in passes_of(members) if one.begun is not None]
    running = [one for one in passes if one.is_running]
    trees = [one for one in passes if one.begun and one.begun.n_levels]
    newest = next(reversed(running or trees or passes), None)
    bars = [_bar(one, members) for one in passes[-MOST_BARS:]]
    bars += [("to come", 0.0, "")] * min(sum(map(_n_to_come, members)), MOST_BARS)
    return str(
        MACROS.card(
            " > ".join(filter(None, (root.name, inner))),
            *_state(root, now),
            [*_chips(members, root, newest), *_warnings(record, members, root)],
            max(0, len(passes) - MOST_BARS),
            bars,
            _tree(newest),
        )
    )


def finished(record: Record) -> str:
    """Return a table of the fits that are over."""
    over = [root for root in record.roots() if root.until is not None]
    over = sorted(over, key=lambda root: root.until or 0.0, reverse=True)[:MOST_ENDED]
    return str(MACROS.finished([_row(record, root) for root in over])) if over else ""


def passes_of(members: list[FitState]) -> list[PassState]:
    """Return the passes of some fits in the order in which they began."""
    return sorted((one for fit in members for one in fit.passes.values()), key=lambda one: one.order)


def _state(root: FitState, now: float) -> tuple[str, str]:
    """Return what went wrong, and the state."""
    if root.is_running:
        return "", f"running, {_clock(now - root.since)}"
    seconds = root.ended.seconds if root.ended else (root.until or now) - root.since
    if root.left:
        return "its client left", f"after {_clock(seconds)}"
    if root.ended and root.ended.error:
        return root.ended.error, f"after {seconds:,.1f} s"
    return "", f"finished in {seconds:,.1f} s"


def _chips(members: list[FitState], root: FitState, one: PassState | None) -> list[tuple[str, str, str]]:
    chips = []
    if one is not None and one.begun is not None and one.is_running:
        begun = one.begun
        n_passes = next((fit.n_passes for fit in members if one.run in fit.passes), None)
        chips.append((pass_label(begun.number, n_passes) or "step", f"{begun.name}, {one.share:.0%}", ""))
        if root.rates.points and one.rates:
            rate = root.rates.points[-1][1]
            rows = rate * begun.n_rows / begun.n_blocks if begun.n_rows and begun.n_blocks else None
            text = f"{rate:,.3g} blocks/s" + ("" if rows is None else f", {number(round(rows))} rows/s")
            chips.append(("rate", text, ""))
    if root.bounds.points:
        chips.append(("certificate", f"{root.bounds.points[-1][1]:.3g} of the energy", ""))
    if root.is_running and root.memory is not None:
        processes, interpreters, law = root.memory
        text = size_of(processes)
        if interpreters is not None:
            text += f", {size_of(max(0, processes - interpreters))} beyond their interpreters"
            text += "" if law is None else f" (by the law up to {size_of(law)})"
        chips.append(("workers", text, ""))
    return chips


def _warnings(record: Record, members: list[FitState], root: FitState) -> list[tuple[str, str, str]]:
    lost, loops = _lost(members, root), sorted(record.compiling()) if root.is_running else []
    names = ", ".join(loops[:3]) + f" and {len(loops) - 3} more" * (len(loops) > 3)
    unknown = f"{record.n_unknown} messages of another version" if record.n_unknown else ""
    chips = [("lost", lost), ("compiling", f"{names} (once, kept for later runs)" if loops else "")]
    return [(name, text, "warm") for name, text in (*chips, ("not understood", unknown)) if text]


def _lost(members: list[FitState], root: FitState) -> str:
    n_tasks = sum(one.n_redone for one in passes_of(members))
    workers = f"{root.lost_workers} worker{'s' * (root.lost_workers != 1)}" if root.lost_workers else ""
    tasks = f"{n_tasks} task{'s' * (n_tasks != 1)} run again" if n_tasks else ""
    return ", ".join(filter(None, (workers, tasks)))


def _n_to_come(fit: FitState) -> int:
    if not fit.is_running or fit.n_passes is None:
        return 0
    begun = [one.begun.number or 0 for one in fit.passes.values() if one.begun]
    return max(0, fit.n_passes - max(begun, default=0))


def _bar(one: PassState, members: list[FitState]) -> tuple[str, float, str]:
    begun = one.begun
    number_of = "" if begun is None or begun.number is None else f"{begun.number} "
    owner = next((f"{fit.name}: " for fit in members[1:] if one.run in fit.passes), "")
    state = f"{one.ended.seconds:,.1f} s" if one.ended else f"{one.share:.0%}"
    kind = "bad" if one.ended and one.ended.error else ("runs" if one.is_running else "")
    return f"{owner}{number_of}{begun.name if begun else ''}, {state}", one.share, kind


def _tree(one: PassState | None) -> dict[str, Any] | None:
    """Return title and rows of cells, one for each level: the last merge on top, blocks at the bottom."""
    if one is None or one.begun is None:
        return None
    begun = one.begun
    name = ", ".join(filter(None, (pass_label(begun.number, None), begun.name)))
    shape = f"{begun.fan_in} summaries to a merge" if begun.fan_in else "nothing is merged"
    again = one.again if one.ended is None else [0] * len(one.totals)
    levels = [
        (
            f"level {level}" if level else "blocks",
            number(done),
            number(total),
            number(redone) if redone else "",
            _cells(begun.n_blocks, begun.fan_in, level, done, total, redone),
        )
        for level, (done, total, redone) in enumerate(zip(one.done, one.totals, again, strict=True))
    ]
    return {"title": f"{name}: {number(begun.n_blocks)} blocks, {shape}", "levels": levels[::-1]}


def _cells(
    n_blocks: int, fan_in: int, level: int, done: int, total: int, again: int
) -> list[tuple[float, float, str]]:
    """Return begin, end and kind of the cells of a level, as shares of its width."""
    if total > MOST_CELLS:
        parts = [(0, done - again, "done"), (done - again, done, "again"), (done, total, "todo")]
        return [(start / total, end / total, kind) for start, end, kind in parts if end > start]
    # A cell is as wide as the blocks below it; the gap is that between blocks, if these are cells too.
    span, gap = fan_in**level if level else 1, 0.06 / min(n_blocks, MOST_CELLS)
    kinds = ["done"] * (done - again) + ["again"] * again + ["todo"] * (total - done)
    return [
        (i * span / n_blocks + gap, min((i + 1) * span / n_blocks, 1.0) - gap, kind)
        for i, kind in enumerate(kinds)
    ]


def _row(record: Record, root: FitState) -> tuple[str, ...]:
    members = record.family(root)
    return (
        root.name,
        time.strftime("%H:%M:%S", time.localtime(root.until)),
        str(root.ended.n_passes if root.ended else len(passes_of(members))),
        f"{root.ended.seconds:,.1f}" if root.ended else "",
        f"{root.bounds.points[-1][1]:.3g}" if root.bounds.points else "",
        _lost(members, root),
        "its client left" if root.left else (root.ended.error if root.ended else ""),
    )


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours = f"{whole // 3600}:{whole // 60 % 60:02d}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02d}"
