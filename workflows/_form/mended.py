"""What went wrong in a run and was mended: the report says how often."""

from typing import Any


class Mended:
    """Listens to events, and counts what was done more than once.

    `counts`: ``retries``.
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
