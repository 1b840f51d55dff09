"""Damages of each format on disk: each read ends in a sentence, or in what was written.

``python -m tests.store.test_mutations 500`` tries so many of each format, seeded, and prints a line for each that went
wrong; a second number is the first seed, and names of formats may follow. An index that reaches a compiled loop unseen
may end this process: it is one of its own.
"""

# ruff: noqa: T201

import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import dask
import numpy as np
import pytest
from scipy import sparse

from dspectral import (
    NgramHashing,
    TruncatedSVD,
    VocabularySettings,
    WordEmbedding,
    build_corpus,
    build_store,
    load,
    open_coordinates,
    open_corpus,
    open_store,
    save,
    write_counts,
)
from dspectral.engine.around import checkpoints as keeping
from tests import forked

SENTENCES = (ValueError, OSError)
FORMS = ("zarr", "parquet")


def made(folder):
    """A store with labels, one with terms and texts, a corpus, a model and kept parts."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.4, (40, 25)).astype(float))
    write_counts(X, f"{folder}/counts", labels=sparse.csr_array(np.eye(3)[rng.integers(3, size=40)]), block_rows=15)
    text = "\n".join(" ".join(f"w{i}" for i in rng.integers(12, size=8)) for _ in range(40))
    Path(folder, "text.txt").write_text(text, encoding="utf-8")
    build_corpus(f"{folder}/text.txt", f"{folder}/corpus", block_bytes=400)
    build_store(
        f"{folder}/text.txt",
        f"{folder}/terms",
        vocabulary=VocabularySettings(),
        block_bytes=400,
        keep_texts=True,
    )
    fitted = TruncatedSVD(3, random_state=np.random.RandomState(3)).fit(X)
    save(fitted, f"{folder}/model")
    build_store(f"{folder}/text.txt", f"{folder}/kept", keep_terms=9, hashing=NgramHashing(64), block_bytes=400)
    for form in FORMS:
        fitted.transform(open_store(f"{folder}/counts"), out=f"{folder}/coordinates/rows.{form}")
    shutil.copytree(f"{folder}/counts", f"{folder}/parts/rows")
    read_parts(folder)


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


def read_coordinates(folder):
    """Coordinates on disk, in both forms."""
    return [open_coordinates(f"{folder}/coordinates/rows.{form}").array.compute() for form in FORMS]


def read_terms(folder):
    """All that can be learned of a store of texts on disk, as arrays."""
    store = open_store(f"{folder}/terms")
    words, weights = store.vocabulary, store.tfidf().compute().toarray()
    return [
        store.counts.compute().toarray(),
        weights,
        np.array(list(words.terms)),
        np.array(store.text(range(40))),
    ]


def read_kept(folder):
    """All that can be learned of a store that keeps terms, as arrays."""
    store = open_store(f"{folder}/kept")
    kept = store.kept_terms
    table = kept.table
    names = [table.terms.text(i) for i in range(table.terms.n_documents)]
    return [
        store.counts.compute().toarray(),
        table.counts,
        table.document_frequency,
        kept.columns,
        np.array(names),
    ]


def read_parts(folder):
    """What a fit makes of kept parts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = open_store(f"{folder}/parts/rows")
        svd = TruncatedSVD(2, n_passes=2, solver="krylov", random_state=0).fit(rows, checkpoints=f"{folder}/parts/kept")
    return [svd.components_, svd.singular_values_]


READ = {name.removeprefix("read_"): read for name, read in globals().items() if name.startswith("read_")}
"""What reads each folder."""


def damage(folder, rng):
    """Cut a file, flip a bit or zero a page of it, remove it, or give it the content of another; say what was done."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size)
    path, other = (files[i] for i in rng.integers(len(files), size=2))
    content, how = path.read_bytes(), ("cut", "flipped", "zeroed", "another", "removed")[rng.integers(5)]
    at, page = (
        rng.integers(len(content)),
        slice(start := rng.integers(len(content)) // 512 * 512, start + 512),
    )
    changed = {
        "cut": content[:at],
        "flipped": content[:at] + bytes([content[at] ^ 1 << rng.integers(8)]) + content[at + 1 :],
        "zeroed": content[: page.start] + bytes(len(content[page])) + content[page.stop :],
        "another": other.read_bytes(),
    }
    path.write_bytes(changed[how]) if how in changed else path.unlink()
    return f"{path.relative_to(folder)} {how}"


def tried(folder, name, seed, right):
    """Damage a copy; return what went wrong, "told" for a sentence and "same" for what was written."""
    changed, rng = Path(folder, "changed"), np.random.default_rng(seed)
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(Path(folder, "sound", name), changed / name)
    what = f"seed {seed}: {damage(changed / name / 'kept' if name == 'parts' else changed / name, rng)}"
    print(f"{name}, {what}", file=sys.stderr, flush=True)
    try:
        found = READ[name](changed)
    except SENTENCES as error:
        sentence = "\n" not in str(error) and str(folder) in str(error)
        return "told" if sentence else f"{name}, {what}: {type(error).__name__} {error!s:.200}"
    except BaseException as error:  # noqa: BLE001  whatever is no sentence is told
        return f"{name}, {what}: {type(error).__name__} {error!s:.200}"
    same = all(np.array_equal(a, b) for a, b in zip(found, right[name], strict=True))
    return "same" if same else f"{name}, {what}: silently something else"


def main(n, first=0, *names):
    """Damage each format n times; print what went wrong, how many were told, and how many changed nothing."""
    with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="sync"):
        keeping.MIN_COST_RATIO = 0.0  # every part is worth its file
        sound = Path(folder, "sound")
        sound.mkdir()
        made(sound)
        right = {name: read(sound) for name, read in READ.items()}
        for name in names or READ:
            ends = [tried(folder, name, seed, right) for seed in range(int(first), int(first) + int(n))]
            print(*(f"{end}\n" for end in ends if end not in ("told", "same")), sep="", end="")
            print(
                f"{name}: {n} damages, {ends.count('told')} told, {ends.count('same')} without effect",
                flush=True,
            )


@pytest.mark.slow
def test_changed_files_end_in_a_sentence_or_change_nothing():
    done = forked.run([sys.executable, "-m", "tests.store.test_mutations", "6"], cwd=Path(__file__).parents[2])
    # A process that a signal ended has a negative code; its last line of stderr is the seed.
    assert done.returncode == 0, done.stderr[-500:]
    counted = dict(line.split(": 6 damages, ") for line in done.stdout.splitlines())
    assert counted.keys() == READ.keys()
    assert sum(int(counts.split()[0]) for counts in counted.values()) > 12


if __name__ == "__main__":
    main(*sys.argv[1:])
