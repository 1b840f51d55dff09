"""The fits that a scheduler has heard of: a bounded number of states, built from messages in any order."""

from collections.abc import Callable, Mapping
from typing import Any

from dspectral.dashboard.states import MOST_PASSES, FitState, PassState
from dspectral.engine import events as of
from dspectral.engine.events import LOGGER

MOST_FITS = 64
"""Fits that are kept, with those that other fits called."""
MOST_LOOPS = 64
"""Loops that are compiled at once, at most."""
NOT_SHOWN = ("BlocksDone", "Redone", "Retried", "Waiting")
"""Messages that change no picture: the tasks of a scheduler are counted where they are."""


class Records:
    """Facts about fits, gathered from messages.

    Messages of one sender are sent without waiting, so one may pass another: each of them sets facts of its own, and
    none depends on those before it.

    `fits`: fits by their tokens; `n_unknown`: number of messages that were not understood; `merging`:
    addresses of the workers that have merged summaries, and so hold all packages that this takes.
    """

    def __init__(self) -> None:
        self.fits: dict[str, FitState] = {}
        self.n_unknown = 0
        self.merging: set[str] = set()
        self._runs: dict[str, PassState] = {}
        self._loops: dict[tuple[str, str, str], tuple[int, bool]] = {}
        self._handlers: dict[str, Callable[[Any, Mapping[str, Any], float], None]] = {
            "FitBegan": self._on_fit_began,
            "FitEnded": self._on_fit_ended,
            "PassBegan": self._on_pass_began,
            "PassEnded": self._on_pass_ended,
            "Merged": self._on_merged,
            "Certified": self._on_certified,
            "Compiling": self._on_compiling,
            "Compiled": self._on_compiling,
        }

    def hear(self, message: object, at: float) -> None:
        """Take in a message."""
        name = message.get("event") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or name in NOT_SHOWN:
            return
        try:
            handler = self._handlers[str(name)]
            kind = getattr(of, str(name))
            values = (message[field] for field in kind._fields)
            event = kind(*(tuple(value) if isinstance(value, list) else value for value in values))
            handler(event, message, at)
        except (KeyError, TypeError):
            LOGGER.debug("a message of another version: %s", name)
            self.n_unknown += 1

    def running_passes(self) -> list[tuple[FitState, PassState]]:
        """Return what runs, each pass with the outermost fit that it is for."""
        found = [(self.root_of(self.fits[one.fit]), one) for one in self._runs.values() if one.is_running]
        return [(root, one) for root, one in found if root.is_running]

    def roots(self) -> list[FitState]:
        """Return the fits that no other fit called."""
        known = (fit for fit in self.fits.values() if fit.is_known and self.root_of(fit) is fit)
        return sorted(known, key=lambda fit: fit.since)

    def family(self, root: FitState) -> list[FitState]:
        """Return a fit, and all fits that it called."""
        members = [fit for fit in self.fits.values() if fit is not root and self.root_of(fit) is root]
        return [root, *sorted(members, key=lambda fit: fit.since)]

    def root_of(self, fit: FitState) -> FitState:
        """Return the outermost fit that called a fit."""
        seen = {fit.token}
        while fit.parent in self.fits and fit.parent not in seen:
            fit = self.fits[fit.parent]
            seen.add(fit.token)
        return fit

    def compiling(self) -> list[str]:
        """Return the names of the loops that are compiled now."""
        return sorted({loop for (_sender, _module, loop), (_order, runs) in self._loops.items() if runs})

    def lose_worker(self, address: str) -> None:
        """Count a worker that left the cluster while fits run."""
        self.merging.discard(address)
        for root in self.roots():
            root.lost_workers += root.is_running

    def leave(self, at: float) -> None:
        """Let all that runs be over, for nobody is left who could go on."""
        for fit in self.fits.values():
            if fit.is_running:
                fit.left, fit.until = True, at
        self._loops.clear()

    def _fit(self, token: str, at: float) -> FitState:
        if token not in self.fits:
            self.fits[token] = FitState(token, at)
            self._forget()
        return self.fits[token]

    def _pass(self, fit: str, run: str, at: float) -> PassState:
        if run not in self._runs:
            # A pass outside any fit is shown as if it were one.
            one = self._runs[run] = PassState(fit or run, run, at)
            owner = self._fit(one.fit, at)
            owner.passes[run] = one
            while len(owner.passes) > MOST_PASSES:
                oldest = next(iter(owner.passes))
                del owner.passes[oldest]
                self._runs.pop(oldest, None)
        return self._runs[run]

    def _forget(self) -> None:
        """Drop the oldest fits, those that are over first."""
        while len(self.fits) > MOST_FITS:
            ended = (token for token, fit in self.fits.items() if not self.root_of(fit).is_running)
            newest = next(reversed(self.fits))
            token = next((token for token in ended if token != newest), next(iter(self.fits)))
            for run in self.fits.pop(token).passes:
                self._runs.pop(run, None)

    def _on_fit_began(self, event: of.FitBegan, _message: Mapping[str, Any], at: float) -> None:
        fit = self._fit(event.fit, at)
        fit.begun, fit.name, fit.parent = event, event.name, event.parent
        fit.n_passes = event.n_passes if fit.n_passes is None else fit.n_passes

    def _on_fit_ended(self, event: of.FitEnded, _message: Mapping[str, Any], at: float) -> None:
        fit = self._fit(event.fit, at)
        fit.ended, fit.name, fit.until, fit.left = event, event.name, at, False
        if fit.begun is None:
            fit.since = at - event.seconds

    def _on_pass_began(self, event: of.PassBegan, message: Mapping[str, Any], at: float) -> None:
        one = self._pass(event.fit, event.run, at)
        one.begin(event, int(message["order"]))
        fit = self._fit(one.fit, at)
        fit.name = fit.name or event.of or event.name
        fit.n_passes = event.n_passes or fit.n_passes

    def _on_pass_ended(self, event: of.PassEnded, _message: Mapping[str, Any], at: float) -> None:
        one = self._pass(event.fit, event.run, at)
        one.ended = event
        if one.begun is None:
            one.since = at - event.seconds
        if not event.fit:
            self._fit(one.fit, at).until = at

    def _on_merged(self, event: of.Merged, message: Mapping[str, Any], at: float) -> None:
        self.merging.add(str(message.get("worker", "")))
        one = self._pass(event.fit, event.run, at)
        one.summary_bytes = max(one.summary_bytes, event.summary_bytes)
        # That of the summary of most rows is the one that says most of the whole.
        place = (event.n_rows or 0, event.level)
        if event.relative is not None and place >= one.best[:2]:
            one.best = (*place, event.relative)
            self.root_of(self._fit(one.fit, at)).bounds.add(at, event.relative)

    def _on_certified(self, event: of.Certified, _message: Mapping[str, Any], at: float) -> None:
        fit = self._fit(event.fit, at)
        fit.certified = event
        self.root_of(fit).bounds.add(at, event.relative)

    def _on_compiling(
        self, event: of.Compiling | of.Compiled, message: Mapping[str, Any], _at: float
    ) -> None:
        key, order = (str(message["sender"]), event.module, event.loop), int(message["order"])
        if self._loops.get(key, (-1, False))[0] < order:
            self._loops[key] = (order, isinstance(event, of.Compiling))
        while len(self._loops) > MOST_LOOPS:
            del self._loops[next(iter(self._loops))]
