# ruff: noqa: T201  a command prints
"""Saved models whose arrays are changed, with digests computed anew, in two processes with different heaps.

``python -m tests.model_mutants 1000`` draws so many. A model is refused by ``load``, or its results depend on the file
alone: both processes find the same bits, or raise the same error. It prints how many differ, and how many crashed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

import dspectral
from dspectral import load, save
from dspectral.methods.lsi.similarities import TermSimilarity
from dspectral.store.arrays import read_stored_group, write_stored_group
from dspectral.store.location import Location
from dspectral.text.weighting import DocumentFrequencies
from dspectral.types import Documents
from tests.contracts import CASES, VECTORS, WORDS, rows_of_classes, sentences, tagged, texts, texts_of_classes

METHODS = (
    "transform", "predict", "predict_proba", "decision_function", "state_probabilities", "embed", "cut", "codes",
    "score", "viterbi", "posteriors", "inverse_transform", "top_labels", "top_terms",
)  # fmt: skip
PERTURBED = 85, 170
"""Bytes that fill memory which a process has given back."""
BATCH = 250
"""Mutants that a process reads, so that starting it is cheap."""


def scikit_learn() -> Any:
    """A pipeline of every transformer of scikit-learn that is saved."""
    both = make_union(MaxAbsScaler(), dspectral.TruncatedSVD(2))
    columns = ColumnTransformer([("a", StandardScaler(with_mean=False), slice(0, 8)), ("b", Normalizer(), [9, 11])])
    return make_pipeline(columns, both, StandardScaler(with_mean=False))


class Holder(dspectral.TruncatedSVD):
    """A model with records of a sparse matrix, a weighting and frequencies among its attributes."""

    def fit(self, X: Any, y: object = None) -> "Holder":
        super().fit(X)
        self.similarity_ = TermSimilarity(["a", "b", "c"], sparse.csr_array(np.eye(3)[::-1]), 3)
        self.weighed_ = dspectral.Weighting("binary", np.array([0.5, 2.0]), np.array([3, 1]), "l2")
        self.frequencies_ = DocumentFrequencies(4, np.array([4, 0, 2]))
        return self


def models() -> dict[str, tuple[Callable[[], Any], Any, Any]]:
    """Return a function that makes each model, with its X and y."""
    found = {name: (case.make, *case.data()) for name, case in CASES.items()}
    X, y = rows_of_classes()
    make = lambda name, **parameters: lambda: getattr(dspectral, name)(**parameters)  # noqa: E731
    sent = dspectral.SentenceRepresentation(2, n_features=256, min_df=1)
    more = {
        "sketch": (make("SketchedPCA", n_components=2, solver="frequent_directions"), X, None),
        "krylov": (make("TruncatedSVD", n_components=2, solver="krylov"), X, None),
        "whitened": (make("PCA", n_components=2, whiten=True), X, None),
        "local": (
            make("LocalLSI", n_components=2, method="rds", recipe=dspectral.LocalRecipe(tol=0.1)),
            X,
            y,
        ),
        "operators": (
            make(
                "RefinementHMM",
                n_refinements=2,
                n_em_iter=0,
                recipe=dspectral.RefinementRecipe(decoding="operators"),
            ),
            *tagged(),
        ),
        "intent": (
            make("IntentClassifier", representation=sent, plus=True, C=[1.0], weights=[0.5]),
            *texts_of_classes(),
        ),
        "packed": (
            make("WordVectorRepresentation", words=Documents.from_strings(WORDS), vectors=VECTORS),
            *texts(),
        ),
        "embedder": (lambda: dspectral.embedder(2), *texts()),
        "anchors": (make("AnchorHMM", n_states=3, min_count=2, n_em_iter=1), *sentences()),
        "scikit-learn": (scikit_learn, X, None),
        "extra": (Holder, X, None),
        "logistic": (lambda: make_pipeline(dspectral.TfidfWeighting(), LogisticRegression()), X, y),
        "ridge": (
            lambda: make_pipeline(dspectral.TruncatedSVD(3), Ridge()),
            X,
            np.arange(X.shape[0]) % 5 * 1.0,
        ),
        "svm": (lambda: make_pipeline(dspectral.NgramHashing(64), LinearSVC()), *texts_of_classes()),
    }
    return {**found, **more}


def fitted(made: tuple[Callable[[], Any], Any, Any]) -> Any:
    """Return the model that is saved."""
    make, X, y = made
    model = make()
    return model.fit(X) if y is None else model.fit(X, y)


def changes(values: Any, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield wrong forms of an array, each with a name."""
    for axis in range(values.ndim):
        yield "cut", np.delete(values, -1, axis=axis) if values.shape[axis] else values
        yield "halved", np.take(values, range(values.shape[axis] // 2), axis=axis)
        yield (
            "enlarged",
            np.concatenate([values, np.take(values, [0], axis=axis)], axis=axis) if values.size else values,
        )
        yield "emptied", np.take(values, [], axis=axis)
        yield "permuted", rng.permutation(values, axis=axis)
    if values.ndim > 1:
        yield "transposed", np.ascontiguousarray(np.moveaxis(values, 0, -1))
        yield "flat", values.reshape(-1)
    yield "column", values.reshape(-1, 1)
    yield "row", values[None]
    if values.size:
        place = rng.integers(values.size)
        kind = values.dtype
        wrong = [np.nan, np.inf, -np.inf, -1.0, 1e300] if kind.kind == "f" else [-1, values.max() + 1, 2**31 - 1]
        for entry in wrong:
            with np.errstate(over="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed = values.copy()
                changed.reshape(-1)[place] = np.asarray(entry).astype(kind)
            yield f"{entry} in it", changed
    for dtype in ("float32", "float64", "float16", "int64", "int32", "int8", "uint64", "bool"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield dtype, values.astype(dtype)


def write_mutant(source: str, path: str, rng: np.random.Generator) -> str:
    """Write a saved model with one array, or one number, changed; return what was."""
    record = read_stored_group(Location.from_url(source))
    arrays = [record.array(number) for number in range(len(record.attributes["digests"]))]
    head = json.dumps(record.attributes["dspectral_model"])
    if not arrays or rng.random() < 0.1:  # a number of the estimator, such as that of its columns
        places = [
            i for i, letter in enumerate(head) if letter.isdigit() and head[i - 1] == " " and head[i + 1] in ",}]"
        ]
        place = int(rng.choice(places)) if places else 0
        head = head[:place] + str(rng.integers(-1, 10**6)) + head[place + 1 :] if places else head
        what = f"number at {place}"
    else:
        number = int(rng.integers(len(arrays)))
        every = list(changes(arrays[number], rng))
        what, arrays[number] = every[rng.integers(len(every))]
        what = f"array {number} {what}"
    content = json.loads(head)
    write_stored_group(Location.from_url(path), {"dspectral_model": content}, arrays)
    return what


def result(model: Any, X: Any) -> list[str]:
    """Return a digest of what each method makes of X, or the error that it raises."""
    said = []
    for name in METHODS:
        method = getattr(model, name, None)
        if not callable(method):
            continue
        given = [] if name in ("codes", "top_terms") else [2] if name == "cut" else [X]
        if name == "inverse_transform":
            given = [np.ones((3, 2))]
        try:
            with np.errstate(all="ignore"):
                found = method(*given)
            found = found.toarray() if sparse.issparse(found) else found
            texts = [str(one) for one in found] if isinstance(found, list) else [np.asarray(found).tobytes().hex()]
            said.append(f"{name} {blake2b(''.join(texts).encode()).hexdigest()[:12]}")
        except Exception as error:  # noqa: BLE001  any error is a function of the file, or it is found to differ
            said.append(f"{name} {type(error).__name__}: {error}"[:200])
    return said


def read_mutants(folder: str, first: int, last: int, seed: int) -> None:
    """Load models, and print what each makes of its X; memory of this process is filled before."""
    warnings.simplefilter("ignore")
    rng, known = np.random.default_rng(seed), models()
    for number in range(first, last):
        name = Path(folder, f"{number}.name").read_text(encoding="utf-8")
        # Blocks of many sizes, filled and given back, are what a read beyond an array finds.
        held = [np.full(int(size), seed * 1e9) for size in rng.integers(1, 4000, size=200)]
        del held
        print(json.dumps({"begun": number}), flush=True)
        try:
            said = result(load(f"{folder}/{number}", classes=[Holder]), known[name][1])
        except ValueError as error:
            said = [f"refused: {error}"]
        except Exception as error:  # noqa: BLE001
            said = [f"not refused but {type(error).__name__}: {error}"]
        print(json.dumps({"number": number, "said": said}), flush=True)


def read_in_process(folder: str, n: int, perturbed: int) -> dict[int, list[str]]:
    """Return what another process finds of each model; one that ends it is called a crash."""
    found: dict[int, list[str]] = {}
    first = 0
    while first < n:
        last = min(n, first + BATCH)
        command = [
            sys.executable,
            "-m",
            "tests.model_mutants",
            "--read",
            folder,
            str(first),
            str(last),
            str(perturbed),
        ]
        environment = {**os.environ, "MALLOC_PERTURB_": str(perturbed), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found |= {one["number"]: one["said"] for one in said if "number" in one}
        begun = [one["begun"] for one in said if "begun" in one]
        if done.returncode and not begun:
            raise RuntimeError(done.stderr[-2000:])
        if begun[-1] not in found:
            found[begun[-1]] = [f"crash {done.returncode}: {done.stderr[-300:]}"]
        first = begun[-1] + 1
    return found


def judged(n: int, seed: int, *, verbose: bool = True) -> Counter[str]:
    """Draw mutants, read them in two processes, and count what became of them."""
    rng, counts = np.random.default_rng(seed), Counter[str]()
    scratch = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108
    with (
        tempfile.TemporaryDirectory(prefix="model-mutants-", dir=scratch) as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        sources, known = f"{folder}/sources", models()
        for name, made in known.items():
            save(fitted(made), f"{sources}/{name}")
        what = {}
        for number in range(n):
            name = list(known)[number % len(known)]
            Path(folder, f"{number}.name").write_text(name, encoding="utf-8")
            what[number] = f"{name}: {write_mutant(f'{sources}/{name}', f'{folder}/{number}', rng)}"
        here, there = (read_in_process(folder, n, perturbed) for perturbed in PERTURBED)
    for number in range(n):
        one, other = here[number], there[number]
        if "crash" in one[0] + other[0]:
            word = "crashed"
        elif one[0].startswith("not refused but"):
            word = "errors that are no refusal"
        else:
            word = "differ" if one != other else "refused" if one[0].startswith("refused") else "functions of the file"
        counts[word] += 1
        if verbose and (word not in ("refused", "functions of the file") or verbose > 1):
            print(f"{word}: {number} {what[number]} {one} {other if one != other else ''}", flush=True)
    return counts


def main() -> int:
    """Print what became of the mutants; return 1 if one crashed or differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=1000, help="mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print what became of each")
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        folder, *numbers = options.read
        read_mutants(folder, *map(int, numbers))
        return 0
    counts = judged(options.n, options.seed, verbose=1 + options.verbose)
    print(f"{options.n} mutants: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return int(counts["crashed"] + counts["differ"] + counts["errors that are no refusal"] > 0)


if __name__ == "__main__":
    sys.exit(main())
