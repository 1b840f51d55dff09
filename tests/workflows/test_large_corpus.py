import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.schedulers import forked_workers
from tests.workflows.programs import words
from workflows._parts import class_chain
from workflows._parts.class_chain import ClassChain
from workflows.benchmarks import large_corpus


@pytest.mark.slow
def test_every_stage_is_reported_at_every_size_and_more_text_tells_more(tmp_path, capsys):
    options = words("--tokens 4000 40000 --types 400 --classes 10 --clusters 10 --min-count 3")
    options += ["--components", "8", "--states", "3", "--workers", "1", "--scratch", str(tmp_path)]
    with forked_workers():
        large_corpus.main([*options, "--out", str(tmp_path / "out"), "--debug"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    found = {(row["method"], row["metric"], row["tokens"]): row["value"] for row in report["rows"]}
    stages = ("corpus", "embedding", "clusters", "anchor")
    said = capsys.readouterr().out
    assert [line.split(",")[0] for line in said.splitlines() if " CPU s, largest worker" in line] == [
        *stages
    ] * 2
    for stage in stages:
        for n_tokens in (4_000, 40_000):
            assert found[stage, "tokens_per_second", n_tokens] > 0
            assert found[stage, "peak_memory_bytes", n_tokens] > 0
    for method, metric in (("embedding", "nearest_neighbor_of_own_class"), ("clusters", "homogeneity")):
        assert found[method, metric, 40_000] > found[method, metric, 4_000]
    assert [note.partition(":")[0] for note in report["notes"] if "10 times the tokens" in note] == list(
        stages
    )


def test_words_follow_the_model():
    chain = ClassChain(n_types=30, n_classes=3, seed=4)
    drawn = chain.draw(50_000, np.random.default_rng(0))
    counts = np.bincount(drawn.ravel(), minlength=30).reshape(10, 3)
    shares = counts / counts.sum(axis=0)
    ranks = np.arange(10)
    np.testing.assert_allclose(shares[:, 0], np.log((ranks + 2) / (ranks + 1)) / np.log(11), atol=0.005)
    followed = np.zeros((3, 3))
    np.add.at(followed, (drawn[:, :-1] % 3, drawn[:, 1:] % 3), 1.0)
    truth = np.array([np.bincount(row, minlength=3) for row in chain.following]) / class_chain.N_DRAWS
    np.testing.assert_allclose(followed / followed.sum(axis=1, keepdims=True), truth, atol=0.01)


def test_more_text_begins_with_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(class_chain, "PART_TOKENS", 1000)
    chain = ClassChain(n_types=30, n_classes=3, seed=4)
    few, more = chain.write(tmp_path, 2000), chain.write(tmp_path, 2500)
    assert more[:2] == few
    assert [len(gzip.decompress(Path(path).read_bytes()).split()) for path in more] == [1000, 1000, 500]
