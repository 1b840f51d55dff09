"""The page speaks of fits in HTML: names are escaped here, and all else is figures."""

import time
from html import escape

from dspectral.dashboard.records import FitState, Memory, PassState, Records
from dspectral.engine.events import pass_label
from dspectral.html import number, size_of

MOST_BARS = 16
"""Passes in a row; earlier ones are counted."""
MOST_CELLS = 128
"""Tasks of a level that are drawn one by one; more are one bar."""
MOST_ENDED = 12
"""Fits in the table of those that are over."""
NOTHING = (
    '<h2>No fit is running</h2><p class="hint">Fits on this cluster appear here once their process tells of them: call '
    "<code>dspectral.show_dashboard(client)</code> there, or start it with "
    "<code>DASK_DSPECTRAL__DASHBOARD=true</code> in its environment. Rows in memory are summarized in the process "
    "itself, and are not seen here.</p>"
)
LAST = '<p class="hint">No fit is running. The last one:</p>'
_WIDTH = 1000


def newest_pass(members: list[FitState]) -> PassState | None:
    """Return the pass to look at: the newest that runs, or the last one with a tree."""
    passes = [one for one in passes_of(members) if one.begun is not None]
    running = [one for one in passes if one.is_running]
    trees = [one for one in passes if one.begun and one.begun.n_levels]
    best = running or trees or passes
    return best[-1] if best else None


def passes_of(members: list[FitState]) -> list[PassState]:
    """Return the passes of some fits in the order in which they began."""
    return sorted((one for fit in members for one in fit.passes.values()), key=lambda one: one.order)


def head(records: Records, root: FitState, now: float) -> str:
    """Return name, state and figures of a fit."""
    members = records.family(root)
    one = newest_pass(members)
    inner = next((fit.name for fit in reversed(members[1:]) if fit.is_running), "")
    name = escape(" > ".join(part for part in (root.name, inner) if part))
    chips = [*_chips(members, root, one), *_warnings(records, members, root)]
    return (
        f'<h2>{name} <span class="state">{_state(root, now)}</span></h2><p class="chips">{"".join(chips)}</p>'
    )


def pass_bars(members: list[FitState]) -> str:
    """Return a row of bars, one for each pass and each that is still to come."""
    passes = [one for one in passes_of(members) if one.begun is not None]
    hidden = max(0, len(passes) - MOST_BARS)
    bars = [_bar(one, members) for one in passes[hidden:]]
    to_come = sum(map(_n_to_come, members))
    bars += [_one_bar("to come", 0.0, "") for _ in range(min(to_come, MOST_BARS))]
    earlier = f'<div class="earlier">{hidden} earlier</div>' if hidden else ""
    if not bars:
        bars = ['<div class="earlier">no pass over blocks of this cluster yet</div>']
    return f'<h3>Passes</h3><div class="bars">{earlier}{"".join(bars)}</div>'


def tree(one: PassState | None) -> str:
    """Return a drawing of a merge tree: a row of cells for each level, the last merge on top, blocks at the bottom."""
    if one is None or one.begun is None:
        return "<h3>Merge tree</h3>"
    begun = one.begun
    what = ", ".join(part for part in (pass_label(begun.number, None), escape(begun.name)) if part)
    shape = f", {begun.fan_in} summaries to a merge" if begun.fan_in else ", nothing is merged"
    again = one.again if one.ended is None else []
    again = (again + [0] * len(one.totals))[: len(one.totals)]
    levels = list(zip(range(len(one.totals)), one.done, one.totals, again, strict=True))
    rows = "".join(_level(begun.n_blocks, begun.fan_in, *level) for level in reversed(levels))
    count = f"{number(begun.n_blocks)} blocks{shape}"
    return f"<h3>Tasks of {what}: {count}</h3><div class=tree>{rows}</div>"


def ended(records: Records) -> str:
    """Return a table of the fits that are over."""
    over = [root for root in records.roots() if root.until is not None]
    shown = sorted(over, key=lambda root: root.until or 0.0, reverse=True)[:MOST_ENDED]
    if not shown:
        return ""
    columns = ("fit", "ended", "passes", "seconds", "certificate", "lost", "")
    heads = "".join(f"<th>{column}</th>" for column in columns)
    rows = "".join(_row(records, one) for one in shown)
    return f'<h3>Finished</h3><table class="over"><tr>{heads}</tr>{rows}</table>'


def _state(root: FitState, now: float) -> str:
    if root.is_running:
        return f"running, {_clock(now - root.since)}"
    seconds = root.ended.seconds if root.ended else (root.until or now) - root.since
    if root.left:
        return f'<b class="bad">its client left</b> after {_clock(seconds)}'
    if root.ended and root.ended.error:
        return f'<b class="bad">{escape(root.ended.error)}</b> after {seconds:,.1f} s'
    return f"finished in {seconds:,.1f} s"


def _chips(members: list[FitState], root: FitState, one: PassState | None) -> list[str]:
    chips = []
    if one is not None and one.begun is not None and one.is_running:
        begun = one.begun
        n_passes = next((fit.n_passes for fit in members if one.run in fit.passes), None)
        place = pass_label(begun.number, n_passes) or "step"
        chips.append(_chip(place, f"{escape(begun.name)}, {one.share:.0%}"))
        rate = root.rates.points[-1] if root.rates.points else None
        if rate is not None and one.rates:
            rows = rate[1] * begun.n_rows / begun.n_blocks if begun.n_rows and begun.n_blocks else None
            text = f"{rate[1]:,.3g} blocks/s" + ("" if rows is None else f", {number(round(rows))} rows/s")
            chips.append(_chip("rate", text))
    if root.bounds.points:
        chips.append(_chip("certificate", f"{root.bounds.points[-1][1]:.3g} of the energy"))
    if root.is_running and root.memory is not None:
        chips.append(_chip("workers", _memory(root.memory)))
    return chips


def _warnings(records: Records, members: list[FitState], root: FitState) -> list[str]:
    chips = []
    lost = _lost(members, root)
    if lost:
        chips.append(_chip("lost", lost, "warm"))
    loops = records.compiling() if root.is_running else []
    if loops:
        names = ", ".join(escape(loop) for loop in loops[:3]) + (
            f" and {len(loops) - 3} more" * (len(loops) > 3)
        )
        chips.append(_chip("compiling", f"{names} (once, kept for later runs)", "warm"))
    if records.n_unknown:
        chips.append(_chip("not understood", f"{records.n_unknown} messages of another version", "warm"))
    return chips


def _lost(members: list[FitState], root: FitState) -> str:
    n_tasks = sum(one.n_redone for one in passes_of(members))
    workers = f"{root.lost_workers} worker{'s' * (root.lost_workers != 1)}" if root.lost_workers else ""
    tasks = f"{n_tasks} task{'s' * (n_tasks != 1)} run again" if n_tasks else ""
    return ", ".join(part for part in (workers, tasks) if part)


def _memory(memory: Memory) -> str:
    text = size_of(memory.processes)
    if memory.interpreters is None:
        return text
    text += f", {size_of(max(0, memory.processes - memory.interpreters))} beyond their interpreters"
    return text if memory.law is None else f"{text} (by the law up to {size_of(memory.law)})"


def _chip(name: str, text: str, kind: str = "") -> str:
    return f'<span class="chip {kind}"><i>{name}</i> {text}</span>'


def _n_to_come(fit: FitState) -> int:
    if not fit.is_running or fit.n_passes is None:
        return 0
    begun = [one.begun.number or 0 for one in fit.passes.values() if one.begun]
    return max(0, fit.n_passes - max(begun, default=0))


def _bar(one: PassState, members: list[FitState]) -> str:
    begun = one.begun
    number_of = "" if begun is None or begun.number is None else f"{begun.number} "
    name = begun.name if begun else ""
    owner = next((fit for fit in members[1:] if one.run in fit.passes), None)
    label = number_of + name if owner is None else f"{owner.name}: {number_of}{name}"
    kind = "bad" if one.ended and one.ended.error else ("runs" if one.is_running else "")
    told = f"{one.ended.seconds:,.1f} s" if one.ended else f"{one.share:.0%}"
    return _one_bar(f"{label}, {told}", one.share, kind)


def _one_bar(label: str, share: float, kind: str) -> str:
    text = escape(label)
    return (
        f'<div class="bar {kind}" title="{text}"><div class="track"><div style="width:{share:.1%}"></div></div>'
        f"<span>{text}</span></div>"
    )


def _level(n_blocks: int, fan_in: int, level: int, done: int, total: int, again: int) -> str:
    name = "blocks" if level == 0 else f"level {level}"
    fine = done - again
    if total > MOST_CELLS:
        parts = [(0, fine, "done"), (fine, done, "again"), (done, total, "todo")]
        drawn = "".join(_rect(start / total, end / total, kind) for start, end, kind in parts if end > start)
    else:
        # A cell is as wide as the blocks below it; the gap is that between blocks, if these are cells too.
        span, gap = fan_in**level if level else 1, 0.06 / min(n_blocks, MOST_CELLS)
        kinds = ["done"] * fine + ["again"] * again + ["todo"] * (total - done)
        ends = [(i * span / n_blocks, min((i + 1) * span / n_blocks, 1.0)) for i in range(total)]
        drawn = "".join(
            _rect(start + gap, end - gap, kind) for (start, end), kind in zip(ends, kinds, strict=True)
        )
    picture = f'<svg viewBox="0 0 {_WIDTH} 10" preserveAspectRatio="none">{drawn}</svg>'
    lost = f' <b class="warm">{number(again)} again</b>' if again else ""
    return f"<div>{name}</div>{picture}<div>{number(done)} of {number(total)}{lost}</div>"


def _rect(start: float, end: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{start * _WIDTH:.1f}" width="{(end - start) * _WIDTH:.1f}" height="10"/>'


def _row(records: Records, root: FitState) -> str:
    members = records.family(root)
    n_passes = root.ended.n_passes if root.ended else len(passes_of(members))
    seconds = f"{root.ended.seconds:,.1f}" if root.ended else ""
    bound = f"{root.bounds.points[-1][1]:.3g}" if root.bounds.points else ""
    why = "its client left" if root.left else (root.ended.error if root.ended else "")
    at = time.strftime("%H:%M:%S", time.localtime(root.until))
    figures = (
        escape(root.name),
        at,
        str(n_passes),
        seconds,
        bound,
        _lost(members, root),
        f"<b>{escape(why)}</b>",
    )
    return f"<tr>{''.join(f'<td>{figure}</td>' for figure in figures)}</tr>"


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours = f"{whole // 3600}:{whole // 60 % 60:02d}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02d}"
