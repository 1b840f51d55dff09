"""Mutations of a store, a corpus and a model on disk: each read ends in a sentence, or in what was written.

``python -m tests.store.test_mutations N`` tries N of them, seeded, and prints a line for each that went wrong. An index
that reaches a compiled loop unseen may end this process: it is one of its own.
"""

# ruff: noqa: T201

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import zarr
from scipy import sparse

from dspectral import WordEmbedding, build_corpus, load, open_corpus, open_store, save, write_counts
from dspectral.decomposition.estimators import TruncatedSVD
from tests import forked

SENTENCES = (ValueError, OSError)


def made(folder):
    """A store with labels, a corpus and a model."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.4, (40, 25)).astype(float))
    write_counts(
        X, f"{folder}/counts", labels=sparse.csr_array(np.eye(3)[rng.integers(3, size=40)]), block_rows=15
    )
    text = "\n".join(" ".join(f"w{i}" for i in rng.integers(12, size=8)) for _ in range(40))
    Path(folder, "text.txt").write_text(text, encoding="utf-8")
    build_corpus(f"{folder}/text.txt", f"{folder}/corpus", block_bytes=400)
    save(TruncatedSVD(3, random_state=0).fit(X), f"{folder}/model")


def read_counts(folder):
    """All that can be learned of a store on disk, as arrays."""
    store = open_store(f"{folder}/counts")
    svd = TruncatedSVD(2, n_passes=2, random_state=0).fit(store)
    return [
        store.counts.compute().toarray(),
        store.labels.compute().toarray(),
        store.column_sums,
        store.document_frequency,
        np.array([store.energy, store.nnz, store.n_rows]),
        svd.components_,
    ]


def read_corpus(folder):
    """All that can be learned of a corpus on disk, as arrays."""
    corpus = open_corpus(f"{folder}/corpus")
    return [
        WordEmbedding(2, random_state=0).fit(corpus).vectors_,
        np.array([corpus.n_tokens, corpus.n_sentences, *corpus.counts]),
        np.array(corpus.words),
    ]


def read_model(folder):
    """All that can be learned of a model on disk, as arrays."""
    model = load(f"{folder}/model")
    return [
        model.transform(np.eye(25)),
        np.array([model.n_features_in_, model.n_components, model.n_passes_]),
    ]


READ = {"counts": read_counts, "corpus": read_corpus, "model": read_model}
"""What reads each folder."""


def mutate(folder, rng):
    """Change one number of the metadata, or entries of an array with its checksums right; return what was done."""
    if rng.random() < 0.5:
        files = sorted(path for path in Path(folder).rglob("zarr.json"))
        path = files[rng.integers(len(files))]
        content = json.loads(path.read_text(encoding="utf-8"))
        places = list(numbers(content.get("attributes", {})))
        if places:
            holder, key = places[rng.integers(len(places))]
            old = holder[key]
            holder[key] = (
                rng.choice([0, -1, 1, 3, 2**31, old + 1]).item() if not isinstance(old, bool) else not old
            )
            path.write_text(json.dumps(content), encoding="utf-8")
            return f"{path.relative_to(folder)}: {key} {old} -> {holder[key]}"
    arrays = sorted(path.parent for path in Path(folder).rglob("zarr.json") if is_array(path))
    path = arrays[rng.integers(len(arrays))]
    array = zarr.open_array(str(path), mode="a")
    values = array[...]
    at = rng.integers(max(1, values.size))
    if values.size:
        flat = values.reshape(-1)
        kinds = [-1, 0, 10**6, 127] if values.dtype.kind != "f" else [np.nan, 0.0, 1e30, -3.0]
        flat[at] = np.asarray(rng.choice(kinds)).astype(values.dtype)
        array[...] = flat.reshape(values.shape)
    return f"{path.relative_to(folder)}[{at}]"


def numbers(node):
    """Every place in nested JSON that holds a number or a bool."""
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in entries:
        if isinstance(value, dict | list):
            yield from numbers(value)
        elif isinstance(value, int | float):
            yield node, key


def is_array(path):
    return json.loads(path.read_text(encoding="utf-8"))["node_type"] == "array"


def tried(folder, seed, right):
    """Mutate a copy; return what went wrong, "told" for a sentence and "same" for what was written."""
    changed = Path(folder, "changed")
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(Path(folder, "sound"), changed)
    what = mutate(changed, np.random.default_rng(seed))
    print(f"seed {seed}: {what}", file=sys.stderr, flush=True)
    name = Path(what).parts[0]  # what was not changed is read as before
    try:
        found = READ[name](changed)
    except Exception as error:  # noqa: BLE001  whatever is no sentence is told
        sentence = isinstance(error, SENTENCES) and "\n" not in str(error) and str(folder) in str(error)
        return "told" if sentence else f"{what}: {type(error).__name__} {error!s:.200}"
    same = all(np.array_equal(a, b) for a, b in zip(found, right[name], strict=True))
    return "same" if same else f"{what}: silently something else"


def main(n, first=0):
    """Try n mutations; print what went wrong, and how many ended in a sentence and how many changed nothing."""
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder, "sound")
        sound.mkdir()
        made(sound)
        right = {name: read(sound) for name, read in READ.items()}
        ends = [tried(folder, seed, right) for seed in range(first, first + n)]
    print(*(end for end in ends if end not in ("told", "same")), sep="\n", end="")
    print(f"{n} mutations: {ends.count('told')} told, {ends.count('same')} without effect")


def test_changed_files_end_in_a_sentence_or_change_nothing():
    done = forked.run(
        [sys.executable, "-m", "tests.store.test_mutations", "24"], cwd=Path(__file__).parents[2]
    )
    # A process that a signal ended has a negative code; its last line of stderr is the seed.
    assert done.returncode == 0, done.stderr[-500:]
    (line,) = done.stdout.splitlines()
    assert line.startswith("24 mutations: ")
    assert int(line.split()[2]) > 12


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
