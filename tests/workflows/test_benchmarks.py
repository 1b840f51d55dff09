"""Every benchmark at a small size: what its report holds, and how it times and checks."""

import gzip
import json

import pytest

from tests import forked
from tests.schedulers import forked_workers
from tests.workflows.programs import report_of, values_of, words
from workflows.benchmarks import hashing, multilabel_scale, scaling
from workflows.benchmarks._races import racing
from workflows.benchmarks.multilabel_scale import Shape
from workflows.benchmarks.scaling import WORKS

LINES = ["the cat sat on the mat", "Über den Fluss", "", "a dog & a cat", "cat cat cat"]
SIZE = 320
COMMANDS = {
    "cells": "--cells 300 --genes 60 --filled 0.3 --variable-genes 20 --components 3 --limit 100",
    "certificates": "--size 300 --documents 200 --n-components 3 --tol 0.05",
    "classifiers": "--train {folder}/labels.tsv --n-components 2",
    "cuts": "--blocks 2 --packages 3 --labelled 5 --n-components 10",
    "following": "--draws 1 --steady-draws 1 --documents 1200 --data {folder} --topics 2",
    "forgetting": "--rows 400 --columns 60 --block-rows 50 --components 3",
    "hashing": "--repeats 2 --text {folder}/lines.txt.gz --documents 4",
    "large_corpus": "--tokens 4000 40000 --types 400 --classes 10 --clusters 10 --min-count 3 --components 8"
    " --states 3 --workers 1 --scratch {folder}/scratch",
    "multilabel_scale": "--shape small --n-states 5 --true-states 8 --parts 2 8 --low-rank 1"
    " --scratch {folder}/scratch",
    "out_of_core": "--rows 400 --columns 3000 --row-length 10 --block-rows 400 --sketch-size 12 --factors 1 3"
    " --components 4 --passes 3 --workers 1",
    "sites": "--draws 4",
    "vectors": "--rows 2000 --columns 130 --components 100 --queries 20 --scratch {folder}",
    "scaling": f"--work build_store --kinds processes --counts 1 --repetitions 1 --size {SIZE}",
}
ROWS = {
    "cells": {"dspectral, file": "passes"},
    "certificates": {"tol 0.05": "certified"},
    "classifiers": {"words, SVD": "accuracy", "scikit-learn: words": "accuracy", "n-grams": "accuracy"},
    "cuts": {"default": "accuracy", "one pass": "accuracy"},
    "following": {"follow": "documents"},
    "forgetting": {"frequent_directions": "same_bits"},
    "hashing": {"dspectral": "documents_per_second", "scikit-learn": "documents_per_second"},
    "large_corpus": dict.fromkeys(("corpus", "embedding", "clusters", "anchor"), "tokens_per_second"),
    "multilabel_scale": {"moments": "third_pass_seconds", "low-rank, 1 turn(s)": "scoring_cpu_seconds"},
    "out_of_core": {"frequent_directions": "peak_memory_bytes", "krylov": "relative_certificate"},
    "vectors": {"PCA": "recall_at_10"},
    "sites": dict.fromkeys(("gram", "frequent_directions", "nystrom"), "draws"),
    "scaling": {"processes": "cpu_seconds"},
}
"""A metric of each method, which is above zero."""


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(hashing, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(racing, "subprocess", forked)
    monkeypatch.setitem(multilabel_scale.SHAPES, "small", Shape(800, 300, 40, 20.0, 3.0))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a benchmark, made once."""
    made = {}

    def run(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            (folder / "lines.txt.gz").write_bytes(gzip.compress("\r\n".join(LINES).encode()))
            pets = [f"a {kind} of {n} words\t{kind}\n" for kind in ("cat", "dog") for n in range(9)]
            (folder / "labels.tsv").write_text("text\tlabel\n" + "".join(pets))
            news = [
                {"date": f" {1 + n % 20}-MAR-1987 15:01:00.1", "title": f"pet{n % 13}", "text": f"pets{n % 13}"}
                for n in range(100)
            ]
            (folder / "reuters21578").mkdir()
            (folder / "reuters21578" / "news.jsonl.gz").write_bytes(
                gzip.compress("\n".join(map(json.dumps, news)).encode())
            )
            with forked_workers():
                options = words(COMMANDS[name].format(folder=folder))
                made[name] = report_of(f"benchmarks.{name}", folder / "out", *options)
            if name == "multilabel_scale":
                assert not list(folder.glob("scratch/*"))
        return made[name]

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_has_a_row_for_each_method(name, report):
    actual = values_of(report(name), "method", "metric")
    assert all(actual[method, metric] > 0 for method, metric in ROWS[name].items())


def test_more_text_tells_more_at_every_stage(report):
    actual = values_of(report("large_corpus"), "method", "metric", "tokens")
    for method, metric in (("embedding", "nearest_neighbor_of_own_class"), ("clusters", "homogeneity")):
        assert actual[method, metric, 40_000] > actual[method, metric, 4_000]
    notes = [note.partition(":")[0] for note in report("large_corpus")["notes"] if "10 times the tokens" in note]
    assert notes == list(ROWS["large_corpus"])


def test_coordinates_of_vectors_keep_most_nearest_rows(report):
    actual = values_of(report("vectors"), "method", "metric")
    assert actual["PCA", "recall_at_10"] > 0.9
    assert actual["PCA", "passes"] == 2
    assert 0 < actual["PCA", "written_bytes"] < 2000 * 100 * 2 + 50_000


def test_passes_over_labels_are_timed_and_learn(report):
    actual = values_of(report("multilabel_scale"), "method", "documents", "metric")
    for documents in (200, 800):
        passes = [actual["moments", documents, f"{name}_pass_seconds"] for name in ("first", "second", "third")]
        assert 0 < sum(passes) <= actual["moments", documents, "seconds"]
        assert actual["moments", documents, "auc"] > 0.7
    assert ("moments", None, "slope_in_documents") in actual


def test_three_times_the_rows_have_as_many_entries_and_spill_nothing(report):
    actual = values_of(report("out_of_core"), "data", "method", "metric")
    for method in ("frequent_directions", "krylov"):
        assert 0 < 2 * actual["x1", method, "entries"] < actual["x3", method, "entries"]
        assert [actual[data, method, "spilled_bytes"] for data in ("x1", "x3")] == [0, 0]


@pytest.mark.parametrize("name", WORKS)
def test_each_work_is_done_by_threads_of_this_process(tmp_path, capsys, name):
    data = tmp_path / "data"
    data.mkdir()
    WORKS[name].data(data, SIZE, 0)
    scaling.work(name, "threads", 2, {"stages": [(str(data), SIZE)] * 2, "out": str(tmp_path / "out")})
    took = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(took[metric] > 0 for metric in ("seconds", "cpu_seconds", "peak_memory_bytes"))
