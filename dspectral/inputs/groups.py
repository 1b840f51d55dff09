"""Groups of documents by a value of each: periods of dates, or the most frequent values."""

import re
from contextlib import suppress

import numpy as np

from dspectral.types import Int32s, Int64s

MAX_GROUPS, MAX_PERIODS = 24, 60
"""Maximum number of groups, and of days or months before longer periods are used."""
DATE = re.compile(r"(\d{4})(?:[-/](\d\d))?(?:[-/](\d\d))?(?=$|[T ]\d)")
"""A date, with what may follow it."""


def group_values(values: list[str], counts: Int64s, by: object) -> tuple[list[str], bool, Int32s]:
    """Return the names of groups, whether they are periods, and the group of each value; -1 for an empty one.

    >>> group_values(["2026-01-31", "2026-03-02"], np.array([1, 1]), "date")[0][::30]
    ['2026-01-31', '2026-03-02']
    >>> group_values(["", "no", "yes"], np.array([1, 2, 9]), "paid")
    (['yes', 'no'], False, array([-1,  1,  0], dtype=int32))
    """
    filled = [value.strip() for value in values if value.strip()]
    groups = np.full(len(values), -1, np.int32)
    positions = [i for i, value in enumerate(values) if value.strip()]
    matches = [DATE.match(value) for value in filled]
    if filled and all(matches):
        with suppress(ValueError):  # such as month 13
            dates = ["-".join(filter(None, match.groups())) for match in matches if match]
            finest = min(map(len, dates))
            for n_letters, unit in ((10, "D"), (7, "M"), (4, "Y")):
                if n_letters > finest:
                    continue
                periods = np.array([date[:n_letters] for date in dates], dtype=f"datetime64[{unit}]")
                steps = (periods - periods.min()).astype(np.int64)
                if steps.max() < MAX_PERIODS or unit == "Y":
                    groups[positions] = steps
                    names = np.arange(periods.min(), periods.max() + 1).astype(str).tolist()
                    return names, True, groups
    if len(filled) > MAX_GROUPS:
        raise ValueError(
            f"by={by!r:.60} has {len(filled)} different values, such as {filled[0]!r:.60}, but must have at most "
            f"{MAX_GROUPS}, or dates such as 2026-11-27"
        )
    order = np.argsort(-counts[positions], kind="stable")
    groups[np.array(positions, np.int64)[order]] = np.arange(len(order))
    return [filled[i] for i in order.tolist()], False, groups
