"""Follow topics over 24 periods: planted changes, text without changes, and dated news.

Planted are a birth, a death, an episode of few periods, a split, and words that change at once or little by little.
Text without changes has independent documents, or threads: runs of documents of one topic. Dated news is Reuters-21578
by week, `reuters21578/*.jsonl.gz` in the folder of `--data`.
"""

import gzip
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from scipy.sparse import csr_array

import dspectral

from .._form import form

N_PERIODS, N_TOPICS, N_FITTED, OF_TOPIC, COMMON, LENGTH = 24, 10, 12, 30, 60, 40
"""Periods, topics, topics of the model, words of a topic, words of all topics, and words of a document."""
BACKGROUND, BORN, DYING, EPISODE, TURNING, DRIFTING, SPLIT, PART, *STEADY = range(N_TOPICS)
"""Numbers of the planted topics. The background gives and takes what others lose and gain."""
SAME_TOPIC = 0.8
"""Probability in a thread that the next document has the same topic."""
MIN_DOCUMENTS = 5
"""Smallest number of documents of a topic in a period whose planted topic is compared."""
OF_WORDS = ("word gained", "word lost")
TOLERANCE = 1
"""Periods by which the time of a change may be wrong."""


class Draw(NamedTuple):
    """Counts (n, d), planted topics and periods of documents (n,), and the periods of planted changes."""

    counts: csr_array
    topics: NDArray[np.int64]
    periods: NDArray[np.int64]
    changes: dict[str, int]


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = form.parser("benchmarks.following", __doc__, fits=False)
    add = parser.add_argument
    add("--draws", type=form.positive, default=40, metavar="N", help="of text with planted changes")
    add("--steady-draws", type=form.positive, default=200, metavar="N", help="of text without changes, of each kind")
    add("--documents", type=form.positive, default=4800, metavar="N", help="of a draw")
    add("--data", type=form.local_path, metavar="DIR", help="folder of Reuters-21578 (default: no dated news)")
    add("--topics", type=form.positive, default=40, metavar="K", help="of the dated news")
    with form.run(parser.parse_args(argv)) as run:
        arguments = run.arguments
        seeds = [arguments.seed + number for number in range(max(arguments.draws, arguments.steady_draws))]
        with run.measure("planted"):
            checks = [check_planted(draw(seed, arguments.documents)) for seed in seeds[: arguments.draws]]
        values = {name: float(np.mean([check[name] for check in checks])) for name in checks[0]}
        run.rows({"draws": len(checks), **values}, data="planted", method="follow")
        for name, same_topic in (("independent", 0.0), ("threads", SAME_TOPIC)):
            with run.measure(name):
                alarms = [
                    bool(follow(draw(seed, arguments.documents, same_topic, changes=False))[1].changes)
                    for seed in seeds[: arguments.steady_draws]
                ]
            interval = scipy.stats.binomtest(sum(alarms), len(alarms)).proportion_ci()
            shares = {"false_alarm_share": np.mean(alarms), "lower_bound": interval.low, "upper_bound": interval.high}
            run.rows({"draws": len(alarms), **{k: float(v) for k, v in shares.items()}}, data=name, method="follow")
        if arguments.data:
            follow_news(run, arguments.data, arguments.topics)


def draw(seed: int, n: int, same_topic: float = 0.0, *, changes: bool = True) -> Draw:
    """Return drawn documents in the order of time."""
    rng = np.random.default_rng(seed)
    begin, end, start, turn, split = (int(period) for period in rng.integers(5, N_PERIODS - 5, 5))
    stop = start + int(rng.integers(3, 6))
    shares = np.full((N_PERIODS, N_TOPICS), 0.08)
    words = np.zeros((N_PERIODS, N_TOPICS, N_TOPICS * OF_TOPIC + COMMON))
    words[..., -COMMON:] = 0.4 / COMMON
    for topic in range(N_TOPICS):
        words[:, topic, topic * OF_TOPIC : (topic + 1) * OF_TOPIC] = 0.6 / OF_TOPIC
    if changes:
        shares[:begin, BORN] = shares[end:, DYING] = shares[:start, EPISODE] = shares[stop:, EPISODE] = 0.0
        shares[split:, SPLIT], shares[:split, PART], shares[split:, PART] = 0.08, 0.0, 0.08
        shares[:split, SPLIT] = 0.16
        half, first = OF_TOPIC // 2, PART * OF_TOPIC
        # Half of the words of the part are those of the topic it splits from.
        words[:, PART, first : first + half] = 0.0
        words[:, PART, SPLIT * OF_TOPIC : SPLIT * OF_TOPIC + half] = 0.6 / OF_TOPIC
        for topic, moved in ((TURNING, np.arange(N_PERIODS) >= turn), (DRIFTING, np.linspace(0, 1, N_PERIODS))):
            first, number = topic * OF_TOPIC, OF_TOPIC // (8 if topic == TURNING else 4)
            words[:, topic, first : first + number] *= 2 * (1 - moved[:, None])
            words[:, topic, first + number : first + 2 * number] *= 2 * moved[:, None]
    shares[:, BACKGROUND] += 1 - shares.sum(axis=1)
    periods = np.sort(rng.integers(N_PERIODS, size=n))
    topics = (rng.random(n)[:, None] > np.cumsum(shares, axis=1)[periods, :-1]).sum(axis=1)
    new = rng.random(n) >= same_topic
    new[0] = True
    topics = topics[np.maximum.accumulate(np.where(new, np.arange(n), 0))]
    counts = csr_array(rng.multinomial(LENGTH, words[periods, topics]).astype(np.float64))
    planted = {"birth": begin, "death": end, "start": start, "stop": stop, "turn": turn, "split": split}
    return Draw(counts, topics, periods, planted)


def follow(drawn: Draw) -> tuple[Any, Any]:
    """Return the fitted topics of drawn documents, and their changes."""
    model = dspectral.Topics(N_FITTED, max_df=0.5).fit(drawn.counts)
    return model, model.follow(drawn.counts, drawn.periods)


def check_planted(drawn: Draw) -> dict[str, float]:
    """Return the shares of kept identities and of planted changes that are reported, and of unplanned ones."""
    model, followed = follow(drawn)
    predicted = model.predict(drawn.counts)
    together = np.zeros((model.n_topics, N_TOPICS, N_PERIODS))
    np.add.at(together, (predicted[predicted >= 0], drawn.topics[predicted >= 0], drawn.periods[predicted >= 0]), 1)
    planted = together.sum(axis=2).argmax(axis=1)
    is_kept = together.argmax(axis=1) == planted[:, None]
    is_there = together.sum(axis=1) >= MIN_DOCUMENTS
    reported = [(int(planted[change.topic]), int(change.period), change.kind) for change in followed.changes]

    def has(topic: int, period: int | None, *kinds: str) -> bool:
        return any(
            one == topic and kind in kinds and (period is None or abs(other - period) <= TOLERANCE)
            for one, other, kind in reported
        )

    def has_new_words(topic: int, period: int | None) -> bool:
        return all(has(topic, period, kind) for kind in OF_WORDS) or has(topic, period, "split")

    begins, ends = ("birth", "split", "rise"), ("death", "merge", "fall")
    when = drawn.changes
    is_unplanned = [
        topic in STEADY or (kind in OF_WORDS and topic in (BACKGROUND, BORN, DYING, EPISODE))
        for topic, _, kind in reported
    ]
    return {
        "identity": float(is_kept[is_there].mean()),
        "births": has(BORN, when["birth"], *begins),
        "deaths": has(DYING, when["death"], *ends),
        "episodes": has(EPISODE, when["start"], *begins) and has(EPISODE, when["stop"], *ends),
        "splits": has(PART, when["split"], "split"),
        "turns": has_new_words(TURNING, when["turn"]),
        "drifts": has_new_words(DRIFTING, None),
        "draws_with_unplanned_changes": any(is_unplanned),
    }


def read_news(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the Monday of its week and the text of each dated document."""
    for path in sorted(folder.glob("reuters21578/*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                if date := re.search(r"\d+-[A-Z]{3}-\d{4} +\d\d?:\d\d:\d\d", record["date"]):
                    time = datetime.strptime(date[0], "%d-%b-%Y %H:%M:%S")  # noqa: DTZ007
                    yield f"{time:%Y-%m-%d %H:%M:%S}", f"{record['title']}\n{record['text']}"


def follow_news(run: form.Run, folder: Path, n_topics: int) -> None:
    """Add the changes of dated news to the report, with a picture."""
    times, texts = zip(*sorted(read_news(folder)), strict=True)
    days = [datetime.fromisoformat(time) for time in times]
    weeks = [f"{day - timedelta(days=day.weekday()):%m-%d}" for day in days]
    model = dspectral.Topics(n_topics)
    run.fit("topics", model, list(texts))
    with run.measure("follow") as used:
        followed = model.follow(list(texts), weeks)
    kinds = [change.kind for change in followed.changes]
    of_words = sum(kind.startswith("word") for kind in kinds)
    values = {
        "documents": len(texts),
        "changes_of_shares": len(kinds) - of_words,
        "changes_of_words": of_words,
        "cpu_seconds": used.cpu_seconds,
    }
    run.rows(values, data="Reuters-21578 by week", method="follow")
    run.plot("topics", dspectral.plot_topic_shares(followed), "Share of each topic by week, with its interval of 95 %")
    run.attach("changes.csv", followed.changes_to_frame().to_csv(index=False))


if __name__ == "__main__":
    main()
