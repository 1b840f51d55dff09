"""Plots of topics over periods."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dspectral.methods.topics.following import FollowedTopics
from dspectral.plotting.style import BLUE, ORANGE

N_COLUMNS = 3


def plot_topic_shares(followed: FollowedTopics, n: int = 12) -> Any:
    """Plot the share of topics in each period, with its interval of 95 % and lines where it changes.

    Parameters
    ----------
    followed : FollowedTopics
        Result of :meth:`Topics.follow`.
    n : int, default=12
        Maximum number of topics: those with the largest changes first, then the most frequent ones.

    Returns
    -------
    Figure
        One small plot for each topic.

    Examples
    --------
    >>> from dspectral import Topics
    >>> texts = ["cats purr", "cats sleep and purr"] * 40 + ["dogs bark", "dogs bark and run"] * 60
    >>> followed = Topics(2, max_df=0.6, stop_words=["and"]).fit(texts).follow(texts, [2025] * 80 + [2026] * 120)
    >>> [ax.get_title() for ax in plot_topic_shares(followed).axes[:2]]
    ['bark dogs run: birth 2026', 'cats purr sleep: death 2026']
    """
    largest = np.zeros(len(followed.labels))
    changes = [change for change in followed.changes if change.word is None]
    for change in changes:
        largest[change.topic] = max(largest[change.topic], abs(change.after - change.before))
    order = np.lexsort((-np.nan_to_num(followed.shares).mean(axis=1), -largest))[:n].tolist()
    n_rows = -(-len(order) // N_COLUMNS)
    figure, axes = plt.subplots(
        n_rows, N_COLUMNS, figsize=(10, 1.9 * n_rows + 0.3), squeeze=False, layout="constrained"
    )
    time = np.arange(len(followed.periods))
    for ax in axes.flat[len(order) :]:
        ax.set_visible(False)
    for topic, ax in zip(order, axes.flat, strict=False):
        own = [change for change in changes if change.topic == topic]
        ax.fill_between(time, *followed.intervals[topic].T, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(time, followed.shares[topic], color=BLUE)
        for change in own:
            ax.axvline(followed.periods.index(change.period) - 0.5, color=ORANGE, linestyle="--", linewidth=1)
        events = ", ".join(f"{change.kind} {change.period}" for change in own[:2]) + (", ..." if len(own) > 2 else "")
        ax.set_title(followed.labels[topic] + (f": {events}" if events else ""), fontsize=8)
        ax.set_ylim(0, None)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        places = [int(place) for place in ax.get_xticks() if 0 <= place < len(time)]
        ax.set_xticks(places, [followed.periods[place] for place in places])
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return figure
