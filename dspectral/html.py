"""HTML cards for notebooks: a table and a bar chart of a spectrum, without scripts."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

WIDTH = 500
"""Maximum width of a card in pixels."""
SHOWN = 6
"""Maximum number of names of a list in a card."""
LONGEST = 60
"""Maximum number of characters of a name in a card."""
_PLOT_WIDTH, _PLOT_HEIGHT, _MOST_BARS = 440, 64, 110
_BLUE, _ORANGE = "#3d85c6", "#e07b00"  # both stand out from white and from black
_CARD = (
    f"max-width:{WIDTH}px;margin:4px 0;padding:6px 10px;border:1px solid rgba(128,128,128,.45);border-radius:4px;"
    "font-family:sans-serif;font-size:13px;line-height:1.4;overflow-wrap:anywhere;box-sizing:border-box"
)
_TABLE = "border-collapse:collapse;margin:4px 0 0 0;width:100%;table-layout:fixed;font-size:12px"
_CELL = "text-align:left;vertical-align:top;padding:1px 8px 1px 0;border:0;background:transparent;white-space:normal"
Facts: TypeAlias = Iterable[tuple[str, object]]


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes as text in kB, MB, GB, TB or PB.

    >>> format_bytes(999), format_bytes(2_500_000), format_bytes(12e9)
    ('999 bytes', '2.5 MB', '12 GB')
    """
    if n_bytes < 1000:
        return f"{n_bytes:.0f} bytes"
    # Decimal units, as for disks and networks.
    unit = min(int(math.log10(n_bytes)) // 3, 5)
    number = n_bytes / 1000**unit
    return f"{number:.{1 if number < 10 else 0}f} {' kMGTP'[unit]}B"


def number(value: float) -> str:
    """Return an integer with thousands separators, or another number with four digits."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return f"{int(value):,}" if whole else f"{value:.4g}"


def share(part: float, whole: float) -> str:
    """Return a part as a percentage.

    >>> share(1, 8), share(1, 3_000_000), share(0, 0)
    ('12.5 %', '3.3e-05 %', '0 %')
    """
    percent = 100.0 * part / whole if whole else 0.0
    return f"{percent:.3g} %" if percent == 0 or percent >= 0.001 else f"{percent:.1e} %"


def names(values: Sequence[object], max_shown: int = SHOWN) -> str:
    """Return the number of names in a list and the first of them."""
    first = (
        text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..." for text in map(str, values[:max_shown])
    )
    return f"{len(values):,}: {', '.join(first)}{', ...' if len(values) > max_shown else ''}"


def card(title: str, facts: Facts, picture: str = "") -> str:
    """Return a card as HTML: a title, a table and a picture."""
    rows = "".join(
        f'<tr style="background:transparent"><td style="{_CELL};width:32%;opacity:.7">{escape(name)}</td>'
        f'<td style="{_CELL}">{escape(_format_cell(value))}</td></tr>'
        for name, value in facts
        if value is not None
    )
    table = f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>' if rows else ""
    return f'<div style="{_CARD}"><b>{escape(title)}</b>{table}{picture}</div>'


def spectrum_picture(values: ArrayLike, *, bound: float | None = None, what: str = "") -> str:
    """Return a bar chart of singular values as an inline SVG. Shapes: `values` (k,)."""
    heights = np.nan_to_num(np.asarray(values, dtype=np.float64).ravel(), nan=0.0, posinf=0.0, neginf=0.0)
    if not len(heights) or heights.max() <= 0:
        return ""
    drawn = heights[:_MOST_BARS]
    step = min(_PLOT_WIDTH / len(drawn), 24.0)
    scale = (_PLOT_HEIGHT - 4) / drawn.max()
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{_PLOT_HEIGHT - max(0.0, height) * scale:.1f}" width="{max(step - 1, 1):.1f}" '
        f'height="{max(0.0, height) * scale:.1f}" fill="{_BLUE}"/>'
        for i, height in enumerate(drawn)
    )
    text = f"{len(heights):,} {what or 'singular values'}, {number(heights[0])} to {number(heights[-1])}"
    if len(drawn) < len(heights):
        text += f" (the first {len(drawn)} are shown)"
    line = ""
    if bound is not None and 0 < bound < drawn.max():
        y = f"{_PLOT_HEIGHT - bound * scale:.1f}"
        line = f'<line x1="0" x2="{_PLOT_WIDTH}" y1="{y}" y2="{y}" stroke="{_ORANGE}" stroke-width="1.5" '
        line += 'stroke-dasharray="5 3"/>'
        text += "; dashed: the bound of the certificate"
    return (
        f'<svg role="img" viewBox="0 0 {_PLOT_WIDTH} {_PLOT_HEIGHT + 2}" width="100%" '
        f'style="display:block;margin-top:6px;max-width:{_PLOT_WIDTH}px"><title>{escape(text)}</title>{bars}'
        f'<line x1="0" x2="{_PLOT_WIDTH}" y1="{_PLOT_HEIGHT}" y2="{_PLOT_HEIGHT}" stroke="currentColor" '
        f'stroke-opacity=".5"/>{line}</svg><div style="font-size:11px;opacity:.7">{escape(text)}</div>'
    )


def _format_cell(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return number(float(value)) if isinstance(value, Real) else str(value)
