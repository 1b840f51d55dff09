"""Labeled sequences from tables and from recordings."""

import argparse
import csv
import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
from numpy.typing import NDArray

from dspectral import VectorQuantizer
from dspectral.engine import run_tasks

from .._form import form

DELTA_FRAMES = 5
"""Frames that a derivative is taken over."""


class Side(NamedTuple):
    """Sequences of tokens and of labels."""

    tokens: list[Any]
    labels: list[Any]


class Task(NamedTuple):
    """What is learned from, and what is to be labeled."""

    name: str
    train: Side
    test: Side


class Recording(NamedTuple):
    """The frames of one recording, and what the index says of it."""

    frames: NDArray[np.float64]
    fields: dict[str, str]


def tables(arguments: argparse.Namespace) -> list[Task]:
    """Read the training and the test side from tables."""
    if not arguments.train or not arguments.test:
        raise ValueError("the data are not given: either --train and --test, or --wav")
    train, test = read_table(arguments.train), read_table(arguments.test)
    if train.tokens and not isinstance(train.tokens[0][0], str):
        quantizer = VectorQuantizer(arguments.codes, random_state=arguments.seed).fit(train.tokens)
        train, test = (Side(quantizer.transform(side.tokens), side.labels) for side in (train, test))
    return [Task(Path(arguments.train).name.split(".")[0], train, test)]


def read_table(path: str) -> Side:
    """Read sequences: the last column is the label, the one before it the token, or all before it a frame."""
    rows: list[list[list[str]]] = [[]]
    width = 0
    with fsspec.open(path, "rt", encoding="utf-8", compression="infer") as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").split("\t")
            if fields == [""]:
                rows.append([])
                continue
            width = width or len(fields)
            if len(fields) != width or width < 2:
                raise ValueError(f"{path}, line {number} has {len(fields)} column(s), but {max(2, width)} are expected")
            if not fields[-1].strip():
                raise ValueError(f"{path}, line {number} is {line!r:.60}, but its last column must hold a label")
            rows[-1].append(fields if width == 2 else frame(fields, path, number))
    rows = [sequence for sequence in rows if sequence]
    if not rows:
        raise ValueError(f"{path} has no line with a token and a label")
    labels = [[fields[-1] for fields in sequence] for sequence in rows]
    if width == 2:
        return Side([[fields[0] for fields in sequence] for sequence in rows], labels)
    return Side([np.array([fields[:-1] for fields in sequence], float) for sequence in rows], labels)


def frame(fields: list[str], path: str, number: int) -> list[Any]:
    """Read the numbers of a frame; its label stays."""
    try:
        return [*map(float, fields[:-1]), fields[-1]]
    except ValueError:
        raise ValueError(f"{path}, line {number} has a frame with something that is no number") from None


def recordings(run: form.Run) -> list[Task]:
    """Read the recordings, and put them together to strings of codes, one task for each test side."""
    arguments = run.arguments
    with run.measure("cepstra of the recordings"):
        found = read_recordings(Path(arguments.wav), arguments.label_column)
    column = arguments.hold_out or arguments.split_column
    if column not in found[0].fields:
        raise ValueError(f"the index of {arguments.wav} has no column {column}, but {', '.join(found[0].fields)}")
    values = sorted({one.fields[column] for one in found}) if arguments.hold_out else ["test"]
    name = Path(arguments.wav).name
    tasks = []
    for value in values:
        with run.measure(f"quantise the frames, {column} {value} held out"):
            train = [one for one in found if one.fields[column] != value]
            test = [one for one in found if one.fields[column] == value]
            if not train or not test:
                raise ValueError(f"with {column} = {value} held out, one side has no recording")
            title = f"{name} without {value}" if arguments.hold_out else name
            tasks.append(strings(title, train, test, arguments))
    frames = sum(len(one.frames) for one in found)
    run.note(f"{name}: {len(found)} recordings, {frames} frames, strings of {arguments.per_string}")
    return tasks


def strings(name: str, train: list[Recording], test: list[Recording], arguments: argparse.Namespace) -> Task:
    """Turn frames into codes learned on the training side, and put recordings together in random order."""
    quantizer = VectorQuantizer(arguments.codes, random_state=arguments.seed)
    quantizer.fit([one.frames for one in train])
    rng = np.random.default_rng(arguments.seed)
    sides = []
    for side in (train, test):
        codes = quantizer.transform([one.frames for one in side])
        order = rng.permutation(len(side))
        parts = [order[i : i + arguments.per_string] for i in range(0, len(side), arguments.per_string)]
        labels = [[one.fields[arguments.label_column]] * len(one.frames) for one in side]
        sides.append(
            Side(
                [np.concatenate([codes[i] for i in part]) for part in parts],
                [[label for i in part for label in labels[i]] for part in parts],
            )
        )
    return Task(name, *sides)


def read_recordings(folder: Path, label_column: str) -> list[Recording]:
    """Read all recordings that the index names, one task for each archive or for the folder."""
    with (folder / "index.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    missing = {"file", label_column} - set(rows[0] if rows else {})
    if missing:
        raise ValueError(f"{folder / 'index.tsv'} has no column {' and '.join(sorted(missing))}, or no line")
    archives: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        archives.setdefault(row.get("zip") or "", []).append(row)
    found = run_tasks(partial(read_archive, str(folder)), list(archives.items()), name="cepstra")
    return [one for part in found for one in part]


def read_archive(folder: str, item: tuple[str, list[dict[str, str]]]) -> list[Recording]:
    """Read recordings of one archive, or of the folder itself where there is none."""
    archive, rows = item
    if not archive:
        return [Recording(cepstra(Path(folder, row["file"]).read_bytes()), row) for row in rows]
    with zipfile.ZipFile(Path(folder, archive)) as opened:
        places = {name.rsplit("/", 1)[-1]: name for name in opened.namelist()}
        absent = [row["file"] for row in rows if row["file"] not in places]
        if absent:
            raise ValueError(f"{Path(folder, archive)} has no file {absent[0]}, which the index names")
        return [Recording(cepstra(opened.read(places[row["file"]])), row) for row in rows]


def cepstra(content: bytes) -> NDArray[np.float64]:
    """Return mel-frequency cepstra of a recording and their derivatives, shape (n_frames, 26).

    Frames of 25 ms every 10 ms, 13 cepstra each, less their mean over the recording.
    """
    librosa, soundfile = audio()
    signal, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    window = round(0.025 * rate)
    found = librosa.feature.mfcc(
        y=signal.mean(axis=1),
        sr=rate,
        n_mfcc=13,
        n_mels=26,
        n_fft=1 << (window - 1).bit_length(),
        win_length=window,
        hop_length=round(0.010 * rate),
    )
    found = found - found.mean(axis=1, keepdims=True)
    slopes = librosa.feature.delta(found, width=DELTA_FRAMES, mode="nearest")
    return np.vstack([found, slopes]).T.astype(np.float64)


def audio() -> tuple[Any, Any]:
    """Import what reads recordings, an optional extra."""
    try:
        import librosa  # noqa: PLC0415  an optional extra
        import soundfile  # noqa: PLC0415  the same
    except ImportError as error:
        raise ImportError("recordings need librosa: pip install 'dspectral[audio]'") from error
    return librosa, soundfile
