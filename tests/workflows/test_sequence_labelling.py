import numpy as np
import pytest
import soundfile

from dspectral import load
from tests.methods.hmm.test_refinement import lists
from tests.workflows.programs import report_of, values_of, words
from workflows import sequence_labelling
from workflows._parts.drawn_sequences import refinement_sequences


def write_table(path, sequences):
    tokens, tags = sequences
    lines = ["\n".join(f"w{x}\tL{a}" for x, a in zip(*pair, strict=True)) for pair in zip(tokens, tags, strict=True)]
    path.write_text("\n\n".join(lines) + "\n")
    return str(path)


def run(out, *options):
    return values_of(report_of("sequence_labelling", out, *options), "data", "method", "metric")


@pytest.fixture
def options(tmp_path):
    tokens, tags = lists(refinement_sequences(400, seed=1))
    train = write_table(tmp_path / "train.tsv", (tokens[:300], tags[:300]))
    test = write_table(tmp_path / "test.tsv", (tokens[300:], tags[300:]))
    return ["--train", train, "--test", test, "--refinements", "2", "--seeds", "2", "--em-iterations", "20"]


def test_report_has_the_rows_that_scripts_rely_on(options, tmp_path):
    out = tmp_path / "out"
    actual = run(out, *options)
    assert {method for _, method, _ in actual} == {"hmm", "em-2", "spectral-2", "moments-2", "operators-2"}
    assert {metric for _, _, metric in actual} == {"frame_accuracy", "label_error_rate", "cpu_seconds"}
    accuracy = {method: value for (_, method, metric), value in actual.items() if metric == "frame_accuracy"}
    assert accuracy["spectral-2"] > accuracy["hmm"]
    assert load(str(out / "model")).n_refinements == 2
    assert (out / "frame_accuracy.png").exists()


def test_views_are_chosen_on_training_strings(options, tmp_path, capsys):
    out = tmp_path / "out"
    rows = report_of("sequence_labelling", out, *options, "--views", "0.5:0.9", ":0.7", "0.8:")["rows"]
    tried = {row["views"]: row["value"] for row in rows if row["metric"] == "held_out_accuracy"}
    assert set(tried) == {"0.5:0.9", ":0.7", "0.8:"}
    chosen = load(str(out / "model"))
    best = max(tried, key=tried.get)
    assert sequence_labelling.decays(best) == (tuple(chosen.recipe.memory), tuple(chosen.recipe.run_memory))
    with pytest.raises(SystemExit):
        sequence_labelling.main([*options, "--views", "half", "--out", str(tmp_path / "bad")])
    assert "'half'" in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path):
    """Two words, each a tone of its own, said by two speakers."""
    where = tmp_path / "words"
    where.mkdir()
    rng, lines = np.random.default_rng(0), ["file\tdigit\tspeaker\tsplit"]
    for i in range(24):
        tone = np.sin(np.arange(2400) * (0.2 + 0.5 * (i % 2)) + rng.random()) + 0.1 * rng.standard_normal(2400)
        soundfile.write(where / f"{i}.wav", 0.5 * tone, 8000)
        lines.append(f"{i}.wav\t{i % 2}\t{'ab'[i // 2 % 2]}\t{'test' if i > 15 else 'train'}")
    (where / "index.tsv").write_text("\n".join(lines))
    return where


def test_recordings_become_strings_and_each_speaker_is_held_out(folder, tmp_path):
    options = words(f"--wav {folder} --codes 16 --refinements 2 --seeds 1 --per-string 3 --em-iterations 10")
    assert run(tmp_path / "one", *options)["words", "spectral-2", "frame_accuracy"] > 0.6
    views = ["--views", "0.5:0.9", ":0.9"]  # chosen anew for each speaker: no choice hears who is held out
    actual = run(tmp_path / "two", *options, *views, "--hold-out", "speaker")
    parts = {"words without a", "words without b"}
    assert {data for data, _, metric in actual if metric == "held_out_accuracy"} == parts
    assert {data for data, _, _ in actual} == {*parts, "mean"}
