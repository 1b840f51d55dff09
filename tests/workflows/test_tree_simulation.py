"""The simulated tree: formulas where there are some, bounds that nothing beats, and the program."""

import json
from itertools import pairwise

import numpy as np
import pytest

from dspectral.engine.merge_tree import merges_of
from workflows.benchmarks import tree_simulation
from workflows.benchmarks._tree import probe
from workflows.benchmarks._tree.events import simulate
from workflows.benchmarks._tree.settings import Settings, drawn, least_seconds, tree_of

CALM = Settings(n_blocks=64, machines=64, block_seconds=3.0, merge_seconds=1.0)
NETWORK = {"summary_bytes": 100, "bandwidth": 50.0, "latency": 0.25}
GIVEN = ["--block-seconds", "30", "--merge-seconds", "5", "--solve-seconds", "20"]


def settings_of(seed):
    """Any settings, with everything that can go wrong."""
    random = np.random.default_rng(seed)
    return Settings(
        n_blocks=int(random.integers(1, 60)),
        machines=int(random.integers(1, 9)),
        block_seconds=random.uniform(0, 5),
        merge_seconds=random.uniform(0, 3),
        fan_in=int(random.integers(2, 6)),
        summary_bytes=int(random.integers(0, 100)),
        bandwidth=float(random.choice([np.inf, 50.0, 300.0])),
        latency=random.uniform(0, 0.1),
        scheduler_seconds=random.uniform(0, 0.2),
        overhead_seconds=0.01,
        start_seconds=0.01,
        spread=random.uniform(0, 1),
        slow_share=random.uniform(0, 1),
        slow_factor=random.uniform(1, 3),
        failures=float(random.choice([0.0, 5.0, 20.0])),
        notice_seconds=random.uniform(0, 3),
        restart_seconds=random.uniform(0, 10),
        keep_level=random.choice([None, None, 0, 1, 2]),
        placement=str(random.choice(["queue", "runs"])),
        seed=seed,
    )


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 27, 64])
@pytest.mark.parametrize("fan_in", [2, 3, 8])
def test_the_tree_is_that_of_the_engine(n_blocks, fan_in):
    tree = tree_of(n_blocks, fan_in)
    levels = [tree.level[n_blocks:].count(level) for level in range(1, max(tree.level) + 1)]
    assert levels == merges_of(n_blocks, fan_in)
    below = [(task,) if task < n_blocks else () for task in range(len(tree.children))]
    for task, group in enumerate(tree.children):
        below[task] += sum((below[child] for child in group), ())
        assert all(b == a + 1 for a, b in pairwise(below[task]))
    assert below[-1] == tuple(range(n_blocks))


@pytest.mark.parametrize("placement", ["queue", "runs"])
@pytest.mark.parametrize(("n_blocks", "fan_in", "depth"), [(64, 2, 6), (64, 4, 3), (64, 8, 2), (1, 2, 0)])
def test_a_block_for_each_machine_takes_one_block_and_the_depth_in_merges(n_blocks, fan_in, depth, placement):
    calm = CALM._replace(n_blocks=n_blocks, fan_in=fan_in, placement=placement)
    assert simulate(calm).seconds == 3.0 + depth * 1.0


def test_the_network_adds_a_transfer_for_each_level():
    moving = CALM._replace(**NETWORK)
    block, level, last = 0.25 + 3 + 0.25, (0.25 + (0.25 + 2 + 0.25) + 1 + 0.25), 0.25 + 2
    assert simulate(moving).seconds == pytest.approx(block + 6 * level + last)
    assert simulate(moving).moved_bytes == 63 * 100
    wide = moving._replace(fan_in=4)  # three transfers of 2 s follow each other on one link
    assert simulate(wide).seconds == pytest.approx(block + 3 * (0.25 + (0.25 + 6 + 0.25) + 1 + 0.25) + last)


@pytest.mark.parametrize("seed", range(5))
def test_one_machine_takes_the_sum_of_all_tasks(seed):
    alone = settings_of(seed)._replace(machines=1, failures=0.0, slow_share=0.0, keep_level=None)
    total = float(drawn(alone, tree_of(alone.n_blocks, alone.fan_in)).seconds.sum())
    n_tasks = len(tree_of(alone.n_blocks, alone.fan_in).children)
    around = n_tasks * (2 * alone.latency + alone.scheduler_seconds + alone.start_seconds)
    expected = total + around + alone.latency + alone.transfer_seconds
    assert simulate(alone).seconds == pytest.approx(expected)
    assert simulate(alone).moved_bytes == 0


def test_empty_tasks_on_many_machines_take_the_schedulers_time():
    empty = Settings(n_blocks=512, machines=512, block_seconds=0.0, scheduler_seconds=0.25)
    assert simulate(empty).seconds == 1023 * 0.25


def test_equal_blocks_fill_the_machines_in_rounds():
    rounds = Settings(n_blocks=40, machines=10, block_seconds=3.0, merge_seconds=0.0)
    assert simulate(rounds).seconds == 12.0


@pytest.mark.parametrize("part", range(6))
def test_no_schedule_beats_the_bounds_and_each_is_the_same_twice(part):
    for seed in range(40 * part, 40 * part + 40):
        any_settings = settings_of(seed)
        once, again = simulate(any_settings), simulate(any_settings)
        assert once.seconds >= max(least_seconds(any_settings).values()) - 1e-9, any_settings
        assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True)), any_settings
        if not any_settings.failures:
            assert (once.n_redone, once.n_lost) == (0, 0)
            assert len(once.begun) == once.n_tasks


def test_no_machine_has_two_tasks_at_once():
    outcome = simulate(settings_of(3)._replace(machines=4, failures=60.0, n_blocks=50))
    at_once = np.concatenate([np.ones(len(outcome.begun)), -np.ones(len(outcome.ended))])
    order = np.lexsort((at_once, np.concatenate([outcome.begun, outcome.ended])))
    assert np.cumsum(at_once[order]).max() <= 4
    assert outcome.n_lost > 0


def test_a_lost_machine_costs_what_it_held():
    # Four blocks on four machines end at 3; the merges of 10 s end at 13 on machines 1 and 3, which took 0's and 2's.
    calm = Settings(n_blocks=4, machines=4, block_seconds=3.0, merge_seconds=10.0, restart_seconds=1000.0)
    assert simulate(calm).seconds == 23.0
    # While its merge runs: its own block is made again, by a machine that is free, and the merge begins anew.
    lost = simulate(calm, seconds=[3, 3, 3, 3, 10, 10, 10], kills=[(5.0, 0)])
    assert (lost.n_redone, lost.n_lost) in {(0, 1), (1, 1), (2, 1), (3, 1)}
    worst = max(
        (simulate(calm, kills=[(14.0, machine)]) for machine in range(4)),
        key=lambda outcome: outcome.n_redone,
    )
    # The merge of all runs since 13 on a machine that holds one half: two blocks, their merge, and it are done again.
    assert worst.n_redone == 4
    assert worst.seconds == 14 + 3 + 10 + 10


def test_what_is_kept_is_read_again_and_not_made_again():
    calm = Settings(n_blocks=4, machines=4, block_seconds=3.0, merge_seconds=10.0, restart_seconds=1000.0)
    kept = calm._replace(keep_level=1, summary_bytes=1, bandwidth=2.0)
    worst = max(
        (simulate(kept, kills=[(15.0, machine)]) for machine in range(4)), key=lambda one: one.n_redone
    )
    assert worst.n_redone == 2  # one half is read, and the merge of both begins again
    assert worst.seconds < 15 + 3 + 10


def test_a_loss_that_is_noticed_late_holds_the_pass_up():
    calm = Settings(n_blocks=4, machines=4, block_seconds=3.0, merge_seconds=10.0, restart_seconds=0.0)
    quick, late = (
        max(simulate(calm._replace(notice_seconds=notice), kills=[(14.0, m)]).seconds for m in range(4))
        for notice in (0.0, 300.0)
    )
    assert late == quick + 300.0


def test_neighbors_on_one_machine_move_less():
    moving = CALM._replace(n_blocks=640, **NETWORK)
    assert simulate(moving._replace(placement="runs")).moved_bytes < simulate(moving).moved_bytes / 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fan_in": 1}, "fan_in is 1, but it must be at least 2"),
        ({"spread": -0.5}, "spread is -0.5, but it must be at least 0"),
        ({"bandwidth": 0.0}, "bandwidth is 0"),
        ({"slow_share": 1.5}, "slow_share is 1.5"),
        ({"placement": "random"}, "placement is 'random', but it must be one of queue, runs"),
        ({"failures": 1e5, "machines": 2}, "machines are lost so often that the pass does not end"),
    ],
)
def test_what_cannot_be_simulated_is_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        simulate(CALM._replace(**change))


def test_the_law_of_columns_that_occur_is_what_draws_give():
    rows = probe.queries(2000, 1 << 12, 10, seed=1)
    assert len(np.unique(rows.indices)) == pytest.approx(probe.distinct(20_000, 1 << 12), rel=0.02)


def test_the_probe_measures_and_says_how_far_off_its_law_is(monkeypatch):
    monkeypatch.setattr(probe, "GRID", ((300, 1 << 10), (900, 1 << 10), (300, 1 << 11)))
    monkeypatch.setattr(probe, "UNSEEN", (600, 1 << 12))
    monkeypatch.setattr(probe, "MERGED_COLUMNS", (1 << 10, 1 << 12))
    law = probe.probed(10, (2, 4), nonzeros=5, seed=0)
    assert law.off > -1
    assert 0 < law.block_seconds(1000, 1 << 10) < law.block_seconds(100_000, 1 << 16)
    assert law.merge_seconds(1 << 20, 4) > law.merge_seconds(1 << 12, 2) > 0
    assert 1 < law.stored_per_entry < 20


def run(tmp_path, *options):
    tree_simulation.main(["--out", str(tmp_path), "--debug", *options])
    return json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))


def test_the_program_reports_the_pass_and_its_sweeps(tmp_path):
    options = [
        "--machines",
        "20",
        "--rows",
        "200_000_000".replace("_", ""),
        "--sweeps",
        "machines",
        "failures",
    ]
    report = run(tmp_path, *GIVEN, *options)
    asked = {row["metric"]: row["value"] for row in report["rows"] if row["method"] == "as asked for"}
    assert asked["tasks"] == 199
    assert asked["seconds"] >= asked["least_seconds"]
    swept = [row for row in report["rows"] if row["metric"] == "seconds" and row.get("machines") == 20]
    assert [row["value"] for row in swept] == [asked["seconds"]]
    assert {"machines_at_work.png", "shares.png", "vary_machines.png", "vary_failures.png"} == set(
        report["plots"]
    )
    assert "minutes on 20 machines" in report["answer"]


def test_seconds_that_are_given_say_nothing_of_other_sizes(tmp_path, capsys):
    with pytest.raises(SystemExit):
        tree_simulation.main(["--out", str(tmp_path), *GIVEN, "--sweeps", "fan_in"])
    assert "--merge-seconds" in capsys.readouterr().err
