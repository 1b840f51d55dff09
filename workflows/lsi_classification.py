"""Classify documents in spaces of latent semantic indexing, which may know classes, or be of one class each.

Text is counted into a store and weighted by tf-idf over its most frequent terms, as the training side has them. A
linear SVM for each class, against all others, learns from: all terms (`none`), plain LSI (`lsi`), LSI that knows the
classes of training documents (`hybrid`), or a space for each class, of its documents (`rds`) or of those that a first
classifier finds relevant (`lrw`). C and what else a method asks for is cross-validated on the training side, a Dask
task each; the test side is scored once.
"""

import argparse

from ._form import form
from ._parts.text_options import LABELED_FILES, add_label_options

METHODS = ("none", "lsi", "hybrid", "rds", "lrw")
GRID = {
    "alpha": (0.1, 0.5, 0.9),
    "beta": (0.0,),
    "C": (0.3, 1.0, 3.0, 10.0),
    "a": (2.0, 5.0, 10.0),
    "b": (0.2, 1.0),
    "gamma": (1.0, 3.0),
}
"""What cross-validation chooses from, unless an option says otherwise."""


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("lsi_classification", __doc__)
    add = parser.add_argument
    what = f"labeled documents: {LABELED_FILES}; also .gz, URLs"
    add("--train", required=True, metavar="FILE", help=what)
    add("--test", required=True, metavar="FILE", help="the same, to be classified")
    add_label_options(parser)
    add("--n-components", nargs="+", type=form.positive, default=[100], metavar="K", help="ranks")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="to compare")
    add("--folds", type=form.positive, default=3, metavar="F", help="of the cross-validation")
    for name, values in GRID.items():
        add(f"--{name}", nargs="+", type=float, default=values, metavar="X", help="to choose from")
    about = "word vectors, for the similarity of terms that --beta weighs (default: none)"
    add("--vectors", metavar="W2V", help=about)
    return parser


form.check_options(__name__, options)

from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import dspectral
from dspectral import VocabularySettings, Weighting, build_store, read_word2vec, term_similarity
from dspectral.store import CountStore
from dspectral.text import inverse_document_frequency

from ._form.plots import at_integers, from_zero, new_lines
from ._parts.labeled_documents import (
    indicator,
    labels_that_count,
    most_frequent,
    name_of,
    not_learned,
    note_not_learned,
    written,
)
from ._parts.lsi_methods import (
    FINE,
    LOCAL,
    Documents,
    Task,
    choices,
    fitted,
    folded,
    scored,
    scores,
    trials,
)


def main(argv: list[str] | None = None) -> None:
    """Read, choose, learn, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        with run.measure("count and weigh the documents"), TemporaryDirectory(prefix="dspectral-") as scratch:
            task, test = prepared(run, scratch)
        found = [one for method in arguments.methods for one in classify(run, method, task, test)]
        plot(run, found)


def prepared(run: form.Run, scratch: str) -> tuple[Task, Documents]:
    """Read both sides, and weigh their counts by the training side's frequencies."""
    arguments = run.arguments
    classes = labels_that_count(arguments)
    sides = [written(arguments, side, classes, f"{scratch}/{side}.jsonl") for side in ("train", "test")]
    settings: Any = {"unit": "field", "field": "text", "vocabulary": VocabularySettings()}
    store = build_store(sides[0].path, f"{scratch}/store.zarr", **settings)
    weighting = frequent_terms(store, arguments.terms)
    similarity = similar_terms(arguments, store, weighting)
    store = build_store(sides[1].path, f"{scratch}/store.zarr", append=True, **settings)
    rows = store.weighted(weighting).compute()
    run.passes += 1
    n_train = len(sides[0].labels)
    # Labels that are not learned are columns behind the others, of the test side alone.
    missed = not_learned(sides[1].labels, classes)
    documents = [
        Documents(rows[:n_train], indicator(sides[0].labels, classes)),
        Documents(rows[n_train:], indicator(sides[1].labels, [*classes, *missed])),
    ]
    exclusive = all(len(labels) == 1 for side in sides for labels in side.labels)
    run.note(
        f"{n_train} training and {len(sides[1].labels)} test documents, {rows.shape[1]} terms, {len(classes)} labels, "
        f"{'one' if exclusive else 'one or more'} a document; {rows.nnz / np.prod(rows.shape):.2%} of the weights "
        "are not zero"
    )
    note_not_learned(run, missed, sides[1].n_unlabeled)
    return Task(documents[0], exclusive, similarity, arguments.seed), documents[1]


def frequent_terms(store: CountStore, n_terms: int) -> Weighting:
    """Return tf-idf over the terms that occur most often."""
    columns = most_frequent(store, n_terms)
    weights = inverse_document_frequency(store.document_frequency, store.n_rows)
    return Weighting("count", weights[columns], columns, "l2")


def similar_terms(arguments: argparse.Namespace, store: CountStore, weighting: Weighting) -> Any:
    """Return the similarity of the terms, if there are vectors."""
    if not arguments.vectors:
        if any(arguments.beta):
            raise ValueError("--beta weighs a similarity of terms, which --vectors must give")
        return None
    terms = store.vocabulary.terms
    words, vectors = read_word2vec(arguments.vectors, errors="replace")
    return term_similarity([terms[column] for column in weighting.columns], words, vectors)


class Found(NamedTuple):
    """A method on the test side."""

    method: str
    n_components: int
    metrics: dict[str, float]
    settings: dict[str, float]


def classify(run: form.Run, method: str, task: Task, test: Documents) -> list[Found]:
    """Choose on the training side, then learn from all of it and score the test side, for each rank.

    The largest rank comes first: smaller ones with its settings use its first components.
    """
    arguments = run.arguments
    grid = {name: getattr(arguments, name) for name in GRID}
    asked = trials(method, arguments.n_components, grid, arguments.C, arguments.folds)
    with run.measure(f"{method}: choose among {len(asked)} trials") as choosing:
        best = choices(task, asked)
    ranks = sorted(set(arguments.n_components)) if method != "none" else [task.train.rows.shape[1]]
    found, model, made = [], None, None
    for k in reversed(ranks):
        settings, C = best.get(k) or next(iter(best.values()))
        with run.measure(f"{method} with {k} components") as used:
            if made != settings or method in LOCAL:  # else the first components of what there is
                model, made = fitted(method, task, task.train, k, settings, C, FINE), settings
                run.passes += 0 if model is None else model.n_passes_
                rows, new = folded(model, task.train.rows), folded(model, test.rows)
            marks = scored(
                scores(model, rows, task.train.members, new, k, C, FINE),
                test.members,
                exclusive=task.exclusive,
            )
        metrics = {f"f1_{name}": value for name, value in marks._asdict().items()}
        found.append(Found(method, k, {**metrics, "cpu_seconds": used.cpu_seconds}, {"C": C, **settings}))
    found.reverse()
    for one in found:
        settings = {"n_components": one.n_components, **one.settings}
        run.rows(one.metrics, data=name_of(arguments.train), method=method, **settings)
    if model is not None:
        run.save(lambda path: dspectral.save(model, path))
    run.note(f"{method}: {len(asked)} trials took {choosing.cpu_seconds:.0f} CPU seconds")
    return found


def plot(run: form.Run, found: list[Found]) -> None:
    """Draw weighted F1 against the rank."""
    points = {
        method: [(one.n_components, one.metrics["f1_weighted"]) for one in found if one.method == method]
        for method in dict.fromkeys(one.method for one in found)
    }
    levels = {"none": points.pop("none")[0][1]} if "none" in points else {}
    figure, axes = new_lines(name_of(run.arguments.train), points, levels, x="components", y="weighted F1")
    from_zero(axes, shares=True, zoom=True)
    at_integers(axes)
    run.answer(best_of(found))
    run.plot("f1", figure, "Weighted F1 on the test documents against the number of components.")


def best_of(found: list[Found]) -> str:
    """Return the sentence that the report begins with: the best of each method, and at what rank."""
    best: dict[str, Found] = {}
    for one in sorted(found, key=lambda one: -one.metrics["f1_weighted"]):
        best.setdefault(one.method, one)
    said = [
        f"`{method}` {one.metrics['f1_weighted']:.1%}"
        + ("" if method == "none" else f" with {one.n_components} components")
        for method, one in best.items()
    ]
    return f"Weighted F1 on the test documents, best first: {', '.join(said)}."


if __name__ == "__main__":
    main()
