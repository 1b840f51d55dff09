import json

import numpy as np
import pytest

from dspectral import HybridLSI, load
from tests.schedulers import forked_workers
from tests.workflows.programs import report_of, values_of
from tests.workflows.programs import words as words_of

FAST = words_of("--folds 2 --C 1 --a 5 --alpha 0.5 --gamma 1 2 --b 0.2 --terms 100")


def write(path, n, seed, *, several):
    """Documents as jsonl: most words tell a style, few the topics, of which there may be several."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for _ in range(n):
            own = np.flatnonzero(rng.random(4) < 0.3) if several else rng.integers(4, size=1)
            style = rng.integers(6)
            styles = [f"s{style}x{word}" for word in rng.integers(8, size=12)]
            topics = [f"t{topic}x{word}" for topic in own for word in rng.integers(15, size=5)]
            labels = [f"topic{topic}" for topic in own]
            record = {"title": " ".join(styles), "body": " ".join(topics)}
            file.write(json.dumps({**record, "topics": labels if several else labels[0]}) + "\n")
    return str(path)


def options_for(folder, *, several):
    train = write(folder / "train.jsonl", 250, 1, several=several)
    test = write(folder / "test.jsonl", 150, 2, several=several)
    return ["--train", train, "--test", test, "--text", "title", "body", "--label", "topics"]


@pytest.fixture(scope="module", params=[False, True], ids=["one label", "several labels"])
def files(request, tmp_path_factory):
    return options_for(tmp_path_factory.mktemp("documents"), several=request.param)


def test_every_method_is_scored_at_every_rank(files, tmp_path):
    report = report_of("lsi_classification", tmp_path, *files, *FAST, "--n-components", "6", "4")
    actual = values_of(report, "method", "n_components", "metric")
    assert {(method, k) for method, k, _ in actual} == {
        ("none", 100), *((method, k) for method in ("lsi", "hybrid", "rds", "lrw") for k in (4, 6))
    }  # fmt: skip
    assert min(actual[method, 6, "f1_weighted"] for method in ("hybrid", "lrw")) > 0.7
    assert actual["hybrid", 4, "f1_weighted"] > actual["lsi", 4, "f1_weighted"] + 0.1
    assert {r["alpha"] for r in report["rows"] if r["method"] == "hybrid"} == {0.5}
    assert (tmp_path / "f1.png").exists()
    assert load(str(tmp_path / "model")).method == "lrw"


@pytest.mark.slow
def test_cross_validation_chooses_and_workers_give_the_same_figures(tmp_path):
    asked = words_of("--n-components 4 --methods hybrid --alpha 0.2 0.9 --folds 2 --C 0.1 10")
    options, figures = [*options_for(tmp_path, several=True), *asked], []
    for name, more in (("threads", []), ("workers", ["--workers", "1", "--memory-limit", "0"])):
        with forked_workers():
            rows = report_of("lsi_classification", tmp_path / name, *options, *more)["rows"]
        figures.append([(r["metric"], r["value"], r["C"], r["alpha"]) for r in rows if r["metric"] != "cpu_seconds"])
        assert isinstance(load(str(tmp_path / name / "model")), HybridLSI)
    assert figures[0] == figures[1]
