import re
from asyncio import CancelledError
from contextlib import nullcontext
from importlib import import_module

import pytest
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

import dspectral
from workflows._form import form
from workflows._form.messages import in_options

PYTHON = re.compile(
    r"\b[a-z_]+=(True|False|None|'|\s|$)|\bdspectral\.\w|Traceback|invalid \w+ value|\b(build_store|write_counts)\b"
)
"""What a person at a shell has no use for."""
FILES = {
    "text.txt": "ant bee cat\nant bee dog\n",
    "latin.txt": b"ant bee\ncaf\xe9\n",
    "records.jsonl": '{"text": "ant bee"}\n{"other": 1}\n',
    "labelled.tsv": "text\tlabel\nhello you\tgreet\nbye now\tleave\n",
    "intents.tsv": "text\tintent\nhello you\tgreet\nbye now\tleave\n",
    "short.tsv": "text\tlabel\tintent\na b\tx\ty\nc d\n",
    "empty.tsv": "text\tlabel\n",
    "tags.tsv": "a\tK\nb\n",
    "frames.tsv": "1\tx\tK\n",
    "blank.txt": "\n\n",
    "pairs.tsv": "h\na\tb\tc\n",
}
MISTAKES = {
    "build_store --text text.txt --store store --columns-bits 7": "--overwrite",
    "build_store --text text.txt --store store --columns-bits 9 --append":
        "--columns-bits = 9.*--columns-bits = 8",
    "build_store --text latin.txt --store new": "line 2.*UTF-8.*--errors replace",
    "build_store --text records.jsonl --store new": "--field .*\\(text\\)",
    "build_store --text text.txt --store new --vocabulary --min-document-frequency 9":
        "--min-document-frequency = 9 .*--max-document-frequency",
    "build_store --text text.txt --store text.txt": "text.txt.*folder",
    "word_embeddings --corpus latin.txt": "line 2.*UTF-8.*--errors replace.*--encoding",
    "word_embeddings --corpus text.txt --store store": "corpus at store",
    "word_embeddings --corpus text.txt --similarity tags.tsv": "line 2.*1 columns.*3",
    "word_embeddings --corpus text.txt --similarity pairs.tsv": "'c'.*number",
    "brown_clusters --corpus text.txt --min-count 1 --n-clusters 50": "--n-clusters.*50",
    "brown_clusters --corpus text.txt --ner-train a.conll": "three",
    "intent_classification --train intents.tsv --test none.tsv": "none.tsv",
    "sequence_labelling": "--train.*--test.*--wav",
    "sequence_labelling --train tags.tsv --test tags.tsv": "line 2.*1 column.*2",
    "pos_induction --corpus tags.tsv": "tags.tsv, line 2",
    "demo --packages 5000": "--packages.*5000.*2 to",
}  # fmt: skip
"""What is typed, where `new` stands for a folder of each test's own, and what is then said."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with files of several kinds, and a store that was hashed to 256 columns."""
    where = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (where / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    hashing = dspectral.NgramHashing(n_features=256)
    dspectral.build_store(str(where / "text.txt"), str(where / "store"), hashing=hashing)
    return where


@pytest.mark.parametrize(("command", "message"), MISTAKES.items())
def test_a_mistake_is_answered_in_the_words_of_the_program(folder, command, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(folder)
    program, *own = command.replace("--store new", f"--store {tmp_path}/new").split()
    with pytest.raises(SystemExit) as caught:
        import_module(f"workflows.{program}").main([*own, "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    error = error.partition("error: ")[2]
    assert re.search(message, error)
    assert not PYTHON.search(error.partition("`")[0]), error
    assert not (tmp_path / "out").exists()


def test_build_store_goes_on_as_its_errors_advise(folder, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(folder)
    out = ["--store", str(tmp_path / "s"), "--out", str(tmp_path / "out"), "--text", "text.txt"]
    main = import_module("workflows.build_store").main
    few = ["--vocabulary", "--min-document-frequency", "9"]
    for more, message in ((few, "--min-document-frequency = 9"), ([], "")):
        with pytest.raises(SystemExit) if message else nullcontext():
            main([*out, *more])
        assert re.search(message, capsys.readouterr().err)
    with pytest.raises(SystemExit):
        main([*out, "--vocabulary"])
    assert re.search("other hashing, vocabulary: --overwrite replaces it", capsys.readouterr().err)
    main([*out, "--vocabulary", "--overwrite", "--discard-unfinished"])
    assert dspectral.open_store(str(tmp_path / "s")).n_rows == 2


OPTIONS = {name: f"--{name.replace('_', '-')}" for name in ("append", "field", "n_components", "columns_bits")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("field is 'a', but b", "--field is 'a', but b"),
        ("n_components is 9, but X has 4", "--n-components is 9, but X has 4"),
        ("n_features is 512, but 256", "--columns-bits is 9, but 256"),
        ("there is no file data/n_components.txt", "there is no file data/n_components.txt"),
        ("line 2: not UTF-8; errors='replace' reads on", "line 2: not UTF-8"),
        ("no file http://host/a?b=c", "no file http://host/a?b=c"),
        ("no file a.txt; strings are files, and dspectral.Texts([...]) makes texts", "no file a.txt"),
        ("too few: give more text, or lower min_df", "too few: give more text"),
    ],
)
def test_parameters_become_options_and_useless_advice_is_dropped(text, message):
    assert in_options(text, OPTIONS) == message


@pytest.mark.parametrize(
    "error",
    [
        FutureCancelledError("sketch-block", "scheduler-connection-lost"),
        CancelledError(),
        CommClosedError("in <TCP>: Stream is closed"),
    ],
)
def test_a_cluster_that_is_lost_outside_a_pass_is_a_sentence(error, tmp_path, capsys):
    parser = form.parser("rivers", "")
    with pytest.raises(SystemExit), form.run(parser.parse_args(["--out", str(tmp_path / "out")])):
        raise error
    message = capsys.readouterr().err.splitlines()[-1]
    assert re.match(".* error: .*cluster", message)
