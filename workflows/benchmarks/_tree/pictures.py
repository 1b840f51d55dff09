"""What a pass took, and its pictures."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._form import form
from ..._form.plots import COLOURS, from_zero, new_bars, new_plot
from .settings import Outcome, Settings, least_seconds

LIMITS = {
    "work": "machines at work",
    "network": "machines that wait for summaries",
    "scheduler": "scheduler",
    "start": "making and sending the graph",
    "tail": "after the last block",
    "solve": "last solve",
}
TIMELINE = 200


class Took(NamedTuple):
    """A pass and what follows.

    `settings`: what was simulated; `outcome`: what it took; `solve_seconds`: of the last solve, after it.
    """

    settings: Settings
    outcome: Outcome
    solve_seconds: float

    @property
    def seconds(self) -> float:
        """Time of the pass and of the last solve, in seconds."""
        return self.outcome.seconds + self.solve_seconds

    def shares(self) -> dict[str, float]:
        """Return what each part takes of the time of all; parts overlap, but for start, tail and solve."""
        machine_seconds = self.settings.machines * self.seconds
        return {
            "work": self.outcome.busy_seconds / machine_seconds,
            "network": self.outcome.waited_seconds / machine_seconds,
            "scheduler": self.outcome.scheduler_seconds / self.seconds,
            "start": self.outcome.start_seconds / self.seconds,
            "tail": self.outcome.tail_seconds / self.seconds,
            "solve": self.solve_seconds / self.seconds,
        }


def shares(run: form.Run, took: Took) -> None:
    """Draw what each part takes of the time of all."""
    values = {LIMITS[name]: share for name, share in took.shares().items()}
    figure, _ = new_bars("Shares of the time", x="share", values=values)
    run.plot(
        "shares", figure, "What each part takes of the time of all; work, network and scheduler overlap."
    )


def vary(run: form.Run, name: str, values: Sequence[float], points: Sequence[Took]) -> None:
    """Draw minutes of all and of its parts against one setting."""
    figure, axes = new_plot(
        f"Minutes against {name.replace('_', ' ')}", x=name.replace("_", " "), y="minutes",
        log="y" if min(values) <= 0 else "xy",
    )  # fmt: skip
    minutes = [point.seconds / 60 for point in points]
    axes.plot(values, minutes, marker="o", label="all", color=COLOURS[0])
    parts: dict[str, Callable[[Took], float]] = {
        "all tasks over all machines": lambda one: least_seconds(one.settings)["work"],
        "scheduler": lambda one: one.outcome.scheduler_seconds,
        "after the last block": lambda one: one.outcome.tail_seconds,
        "last solve": lambda one: one.solve_seconds,
    }
    for (label, part), color in zip(parts.items(), COLOURS[1:], strict=False):
        axes.plot(values, [part(one) / 60 for one in points], marker=".", lw=1, label=label, color=color)
    axes.legend(frameon=False)
    run.plot(
        f"vary_{name}", figure, f"Minutes of all and of its parts where {name.replace('_', ' ')} differs."
    )


def timeline(run: form.Run, took: Took) -> None:
    """Draw how many machines are at work on blocks and on merges, over time."""
    outcome = took.outcome
    edges = np.linspace(0.0, max(outcome.seconds, 1e-9), TIMELINE + 1)
    figure, axes = new_plot("Machines at work", x="seconds", y="machines")
    busy = [at_work(outcome, edges, outcome.levels == 0), at_work(outcome, edges, outcome.levels > 0)]
    axes.stackplot(edges[:-1], *busy, labels=["blocks", "merges"], colors=COLOURS[:2], lw=0)
    axes.legend(frameon=False)
    from_zero(axes)
    run.plot("machines_at_work", figure, "Machines that summarize blocks and that merge; the rest wait.")


def at_work(outcome: Outcome, edges: Any, which: Any) -> Any:
    """Return how many of the attempts picked are under way between neighboring edges, on the mean."""
    width = edges[1] - edges[0]
    busy = np.zeros(len(edges))
    for moments, sign in ((outcome.begun[which], 1.0), (outcome.ended[which], -1.0)):
        # The time that attempts have been under way until an edge: the sum of max(0, edge - moment) over moments.
        ordered = np.sort(moments)
        counts = np.searchsorted(ordered, edges)
        sums = np.concatenate([[0.0], np.cumsum(ordered)])[counts]
        busy += sign * (counts * edges - sums)
    return np.diff(busy) / width
