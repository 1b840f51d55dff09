"""``--plan``: what a program would take, and nothing run."""

import json

import pytest

from workflows import build_store
from workflows._form import options


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat on the mat\n" * 3000, encoding="utf-8")
    return path


def planned(folder):
    return json.loads((folder / "plan.json").read_text(encoding="utf-8"))


def test_a_build_is_planned_and_neither_store_nor_report_is_written(text, tmp_path, capsys):
    store, out = tmp_path / "never.zarr", tmp_path / "out"
    build_store.main(["--text", str(text), "--store", str(store), "--out", str(out), "--plan"])
    (plan,) = planned(out)
    assert plan["name"] == "build_store"
    assert plan["bytes_read"] == text.stat().st_size
    assert not store.exists()
    assert [path.name for path in out.iterdir()] == ["plan.json"]


def test_what_does_not_fit_ends_with_code_2_and_an_option_that_would(text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(options, "LEAST_MEMORY", 50_000_000)  # so small a text fits wherever a worker does
    given = ["--text", str(text), "--store", str(tmp_path / "never.zarr"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        build_store.main([*given, "--plan", "--workers", "1", "--memory-limit", "100MB"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "build_store" in message
    assert "--memory-limit" in message
