import json
from contextlib import nullcontext

import numpy as np
import pytest

from tests import forked
from workflows.benchmarks import races
from workflows.benchmarks._races import racing
from workflows.benchmarks._races.contender import RACES
from workflows.benchmarks._races.racing import Contender, Course, Lane, Race

ENTRIES = [(race, contender) for race, of in RACES.items() for contender in of.contenders]
GOOD = {
    "energy_lost": (-1e-4, 0.1),
    "excess": (-1e-4, 0.1),
    "differing_columns": (0.0, 0.0),
    "same_class_nearest": (0.0, 1.0),
    "auc": (0.6, 1.0),
    "precision_at_1": (0.1, 1.0),
    "values_off": (0.0, 1e-4),
    "genes_differing": (0.0, 0.0),
    "readings_of_file": (0.01, 50.0),
    "passes": (3.0, 3.0),
}
"""From what to what each score may be on the toy data."""


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Folder and settings of the toy data of a race, made once."""
    made, text = {}, tmp_path_factory.mktemp("text") / "lines.txt"
    rng = np.random.default_rng(0)
    drawn = [" ".join(f"w{i}" for i in rng.zipf(1.3, 20).clip(max=500)) for _ in range(300)]
    text.write_text("\n".join(drawn), encoding="utf-8")

    def toy(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            settings = {"seed": 0, "text": [str(text)], **RACES[name].sizes["toy"]}
            RACES[name].make(folder, settings)
            made[name] = folder, settings
        return made[name]

    return toy


@pytest.mark.filterwarnings("default")  # peers warn of what is theirs
@pytest.mark.parametrize(("name", "contender"), ENTRIES)
def test_every_contender_does_the_toy_task_well(name, contender, toys):
    entry = RACES[name].contenders[contender]
    library = pytest.importorskip(entry.module)
    folder, settings = toys(name)
    actual = entry.tell(entry.prepare(library, folder, settings)())
    scores = RACES[name].accuracy(folder, settings, actual)
    assert scores
    for metric, value in scores.items():
        low, high = GOOD[metric]
        assert low <= value <= high, f"{metric}: {value}"


def report(tmp_path, *options):
    (tmp_path / "lines.txt").write_text("one line of words\nand another line of words\n" * 50, encoding="utf-8")
    text = ["--text", str(tmp_path / "lines.txt")]
    races.main(["--out", str(tmp_path / "out"), "--size", "toy", *text, *options])
    return json.loads((tmp_path / "out" / "report.json").read_text())


def test_a_race_in_processes_of_their_own_leaves_rows_details_and_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(racing, "subprocess", forked)
    actual = report(tmp_path, "--races", "hashing", "--repetitions", "1")
    value = {(row["method"], row["metric"]): row["value"] for row in actual["rows"] if "repetition" not in row}
    computed, reference = "dspectral", "scikit-learn HashingVectorizer"
    assert value[computed, "cpu_ratio"] == 1.0
    assert value[reference, "cpu_ratio"] == pytest.approx(
        value[reference, "cpu_seconds"] / max(value[computed, "cpu_seconds"], 1e-9)
    )
    assert value[reference, "differing_columns"] == 0
    assert 2e7 < value[computed, "peak_memory_bytes"] < 1e9
    once = [row for row in actual["rows"] if row.get("repetition") == 0 and row["metric"] == "seconds"]
    assert [row["method"] for row in once] == [computed, reference]
    page = (tmp_path / "out" / "races.md").read_text()
    assert "## hashing" in page
    assert "| scikit-learn HashingVectorizer |" in page


def fake_race(*names):
    contenders = {name: Contender("json", lambda *_: dict) for name in names}
    return Race("Do it.", {}, lambda *_: "", contenders, lambda *_: {})


def test_contenders_run_in_turn_and_back_and_who_fails_runs_no_more(monkeypatch):
    course, ran = Course("fake", fake_race("a", "b", "c"), [], 1.0), []

    def run(_self, contender):
        ran.append(contender)
        return "stopped after 1 s" if contender == "b" else {"cpu_seconds": float(len(ran))}

    monkeypatch.setattr(Course, "run", run)
    lanes = racing.hold(course, 3, lambda *_: nullcontext())
    assert ran == ["a", "b", "c", "c", "a", "a", "c"]
    assert lanes["b"] == Lane([], "stopped after 1 s")
    assert lanes["a"].of("repetition").tolist() == [0, 1, 2]


def test_a_contender_that_takes_too_long_or_fails_says_so(tmp_path):
    race = RACES["hashing"]
    settings = {"seed": 0, "text": None, **race.sizes["toy"]}
    late = Course("hashing", race, [(tmp_path, settings)], 0.05)
    assert "0.05 s" in late.run("dspectral")
    wrong = Course("hashing", race, [(tmp_path, settings)], 60.0)  # the data was never made
    assert "FileNotFoundError" in wrong.run("dspectral")
