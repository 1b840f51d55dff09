"""Time and memory of TMPCA and of PCA against the length of sentences, with the exponents of power laws."""

from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from dspectral import SketchedPCA, TreePCA
from dspectral.methods.tmpca import make_token_table

from ._form import form
from ._form.plots import new_lines
from ._form.table import size
from ._form.usage import HERE
from ._parts.labeled_texts import Texts, content
from ._parts.text_classifiers import Settings

LEAST_SECONDS = 0.5
"""CPU time below which a measurement is made again."""
MOST_REPEATS = 5


def measure_scaling(run: form.Run, texts: Texts, settings: Settings) -> None:
    """Fit both to the same arrays, at each length."""
    arguments = run.arguments
    cut, lengths = full_sentences(texts, settings, max(arguments.lengths)), sorted(arguments.lengths)
    many = np.resize(np.arange(len(cut)), arguments.sentences)  # over again where the text is short
    rng = np.random.default_rng(arguments.seed)
    found: dict[str, dict[str, list[float]]] = {}
    for length in lengths:
        # Other places of the same sentences: no two rows are alike, which would make PCA's matrix singular.
        X = cut[many][:, :length] + 0.1 * rng.standard_normal((len(many), length, cut.shape[2]), dtype=np.float32)
        k = min(settings.n_components, cut.shape[2])
        flat = X.reshape(len(X), -1)
        fits: dict[str, Callable[[], Any]] = {
            "tmpca": lambda X=X, k=k, n=length: TreePCA(k, length=n).fit(X),
            "pca": lambda flat=flat, k=k: SketchedPCA(k, solver="gram").fit(flat),
        }
        for method, fit in fits.items():
            seconds, memory = measured(run, f"{method}, N = {length}", fit)
            for metric, value in (("cpu_seconds", seconds), ("working_memory_bytes", memory)):
                found.setdefault(metric, {}).setdefault(method, []).append(value)
                run.row(data="scaling", method=method, metric=metric, value=value, length=length)
    for metric, methods in found.items():
        for method, values in methods.items():
            value = round(exponent(lengths, values), 3)
            run.row(data="scaling", method=method, metric=f"exponent_of_{metric}", value=value)
        plot(run, metric, lengths, methods)
    grow = {method: exponent(lengths, values) for method, values in found["cpu_seconds"].items()}
    longest = {method: size(values[-1]) for method, values in found["working_memory_bytes"].items()}
    run.answer(
        f"With N words a sentence, time grows as N^{grow['tmpca']:.2f} for TMPCA and as N^{grow['pca']:.2f} for PCA; "
        f"at {lengths[-1]} words they take {longest['tmpca']} and {longest['pca']} of memory."
    )


def measured(run: form.Run, step: str, fit: Callable[[], Any]) -> tuple[float, float]:
    """Return the least CPU seconds of a few fits (of one, where it takes long), and its memory beside the data's."""
    seconds, memory = [], 0.0
    while not seconds or (min(seconds) < LEAST_SECONDS and len(seconds) < MOST_REPEATS):
        before = psutil.Process().memory_info().rss
        with run.measure(step) as used:
            fitted = fit()
        run.passes += fitted.n_passes_
        seconds.append(max(used.cpu_seconds, 1e-3))
        memory = max(memory, float(used.peaks[HERE] - before), float(1 << 20))
    return min(seconds), memory


def full_sentences(texts: Texts, settings: Settings, length: int) -> NDArray[np.float32]:
    """Return the vectors of all words, cut into sentences of the same length, shape (n, length, d)."""
    words = [word for text in content(texts.words, settings.stop_words) for word in text]
    n = len(words) // length
    if not n:
        raise ValueError(f"the texts have {len(words)} words, but a sentence of --lengths takes {length}")
    distinct = list(dict.fromkeys(words))
    table = make_token_table(settings.vectors, distinct, settings.vectors[1].shape[1])
    numbers = {word: i for i, word in enumerate(distinct)}
    ids = np.array([numbers[word] for word in words[: n * length]])
    return table[ids].reshape(n, length, -1)


def exponent(lengths: list[int], values: list[float]) -> float:
    """Return the power of the length that values go with, by least squares of the logarithms.

    >>> round(exponent([8, 16, 32], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0]) if len(lengths) > 1 else float("nan")


def plot(run: form.Run, metric: str, lengths: list[int], methods: dict[str, list[float]]) -> None:
    """Draw one metric of both methods."""
    what, unit, scale = ("memory", "GB", 1e9) if "bytes" in metric else ("CPU time", "seconds", 1.0)
    lines = {
        f"{method}: N^{exponent(lengths, values):.2f}": [
            (n, value / scale) for n, value in zip(lengths, values, strict=True)
        ]
        for method, values in methods.items()
    }
    title = f"{what[0].upper()}{what[1:]}"
    figure, axes = new_lines(f"{title} against length", lines, x="words of a sentence", y=unit, log="xy")
    axes.set_xticks(lengths, list(map(str, lengths)))
    axes.minorticks_off()
    caption = f"{title} of a fit, {unit}, against the words of a sentence; axes are logarithmic."
    run.plot(metric, figure, caption)
