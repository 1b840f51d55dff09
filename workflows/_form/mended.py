"""What went wrong in a run and was mended: the report says how often."""

from typing import Any


class Mended:
    """Listens to events, and counts what was done more than once.

    Attributes
    ----------
    counts : dict of str to int
        ``retries``: attempts to read, write or compute that failed and were repeated. ``tasks_redone``: tasks whose
        results were lost, with a worker for instance, and that ran again.
    """

    def __init__(self) -> None:
        self.counts = {"retries": 0, "tasks_redone": 0}

    def __call__(self, event: Any) -> None:
        """Take in an event, which is known by its name."""
        kind = type(event).__name__
        if kind == "Retried":
            self.counts["retries"] += 1
        elif kind == "Redone":
            self.counts["tasks_redone"] += event.n_tasks
