"""Classify the intent of sentences, with representations learned from unlabelled text by matrix sketching.

The training sentences (without their labels, shuffled) and the unlabelled text are counted into a store, of which the
leading directions are found; the test side is never looked at. With `--labelled N`, all training sentences but the N
drawn of each intent are unlabelled text. With `--shares`, the labelled sentences and a share of the unlabelled text
are read: at 0 the labelled sentences alone. Methods: `none` is a Crammer-Singer SVM on hashed n-grams,
`vectors` adds averaged word vectors, `sent` the sketched representation (equation 2 of the paper), `sent+`
also the first two words and the scores of a supervised model. With `--method` one more is learned: of the sketched
representation `sketch` takes the directions of words alone, `idf` their rarity alone, `idf+sent` has both side by side;
`auto` is whichever of these, `sent` and `none` is best in the cross-validation. What is chosen (C, weights) is
cross-validated on the training side.
"""

import argparse
from tempfile import TemporaryDirectory
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

import dspectral
from dspectral import (
    IntentClassifier,
    IntentRecipe,
    SentenceRepresentation,
    Texts,
    WordVectorRepresentation,
    build_store,
    read_word2vec,
)
from dspectral.store import CountStore

from ._form import form
from ._parts.intent_scores import Labelled, Scores, Task
from ._parts.labelled_documents import name_of, not_learned, note_not_learned
from ._parts.labelled_texts import read_one_label

PENALTIES, WEIGHTS = (0.3, 1.0, 3.0), (0.5, 1.0)
"""What cross-validation chooses from for each method, and for the counts alone also one penalty more."""
METHODS = ("auto", *SentenceRepresentation.halves, "sent+")
"""Methods that the unlabelled text teaches; `sent` and `sent+` are always fitted."""


def main(argv: list[str] | None = None) -> None:
    """Learn, classify, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        (train, others), (test, unlabelled) = (read_labelled(arguments, side) for side in ("train", "test"))
        missed = not_learned(([intent] for intent in test.intents.tolist()), train.intents.tolist())
        note_not_learned(run, missed, len(unlabelled))
        # Files are often sorted by intent, which what is learned from their text must not know.
        train = train.at(np.random.default_rng(arguments.seed).permutation(len(train.texts)))
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            with run.measure("count the unlabelled text"):
                store = unlabelled_store(arguments, [*train.texts, *others], f"{scratch}/unlabelled.zarr")
            classify(run, Task(name_of(arguments.train), train, test, store))


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("intent_classification", __doc__)
    add = parser.add_argument
    about = "labelled sentences: fields text and intent, jsonl, CSV, TSV or Parquet"
    add("--train", required=True, metavar="FILE", help=about)
    add("--test", required=True, metavar="FILE", help="the same, to be classified")
    add("--label", metavar="FIELD", help="with the intent (default: intent, or label where there is none)")
    about = "text, one sentence a line; also .gz, URLs (default: none)"
    add("--unlabeled", nargs="*", default=[], metavar="FILE", help=about)
    about = "word vectors in word2vec's text or binary format (default: learned here)"
    add("--vectors", metavar="W2V", help=about)
    add_choices(parser)
    return parser


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the options that do not say where the text is."""
    add = parser.add_argument
    add("--shares", nargs="+", type=form.share, default=[1.0], metavar="S", help="of the unlabelled text")
    add("--labelled", type=form.positive, metavar="N", help="labelled sentences an intent (default: all)")
    add("--draws", type=form.positive, default=1, metavar="R", help="random draws of the N")
    about = "whose model is saved (default: sent); auto is the best in the cross-validation, for which all are fitted"
    add("--method", choices=METHODS, default="sent", help=about)
    add("--n-components", type=form.positive, default=200, metavar="K", help="length of a word's vector")
    add("--columns-bits", type=form.bits, default=18, metavar="B", help="hash to 2^B columns")


def classify(run: form.Run, task: Task) -> SentenceRepresentation:
    """Score every method at every share and draw; return the representation of all of the text."""
    arguments = run.arguments
    shares = sorted({*arguments.shares, 1.0})
    full = representation_of(arguments, task)
    run.fit("sketch all of the text", full, task.store)
    run.note(
        f"{task.name}: {len(task.train.texts)} training and {len(task.test.texts)} test sentences, "
        f"{task.store.n_rows} sentences of text, {len(full.words_)} words with a vector; the sketch's "
        f"certificate is {full.certificate_.relative:.2e} of the energy"
    )
    scores = Scores(run, task)
    for draw in range(arguments.draws if arguments.labelled else 1):
        rows = drawn(task.train.intents, arguments.labelled, arguments.seed + draw)
        train = task.train.at(rows)
        none = scores.fit("none", train, IntentClassifier(C=(*PENALTIES, 10.0)), shares)
        if arguments.vectors:
            words, table = read_word2vec(arguments.vectors, errors="replace")
            vectors = WordVectorRepresentation(words, table, n_features=full.n_features)
            scores.fit("vectors", train, chosen_from(vectors), shares)
        for part in shares:
            learned = full if part == 1.0 else sketched(run, task, rows, part, arguments.seed + draw)
            model = compared(scores, arguments.method, train, learned, part, none)
        run.save(lambda path, model=model: dspectral.save(model, path))
    scores.report()
    return full


def compared(
    scores: Scores,
    method: str,
    train: Labelled,
    learned: SentenceRepresentation,
    part: float,
    none: IntentClassifier,
) -> IntentClassifier:
    """Fit the methods that a share of the text has taught, and return the one to save."""
    found = {"sent": scores.fit("sent", train, chosen_from(learned), [part])}
    # C and weight would be chosen in the same way again: before the others.
    choice = found["sent"].choice_
    plus = IntentClassifier(learned, plus=True, C=choice.C, weights=choice.weight)
    plus = scores.fit("sent+", train, plus, [part])
    for half in SentenceRepresentation.halves:
        if half != "sent" and method in ("auto", half):
            found[half] = scores.fit(half, train, chosen_from(learned, IntentRecipe(half)), [part])
    if method == "auto":
        return scores.choose({**found, "none": none}, part)
    return {**found, "sent+": plus}[method]


def chosen_from(
    representation: SentenceRepresentation | WordVectorRepresentation, recipe: IntentRecipe | None = None
) -> IntentClassifier:
    """Return a classifier that chooses its penalty and the weight of the representation."""
    return IntentClassifier(representation, C=PENALTIES, weights=WEIGHTS, recipe=recipe)


def representation_of(arguments: argparse.Namespace, task: Task) -> SentenceRepresentation:
    """Make the representation, not yet learned."""
    return SentenceRepresentation(
        arguments.n_components, n_features=task.store.n_columns, random_state=arguments.seed
    )


def sketched(
    run: form.Run, task: Task, labelled: NDArray[np.int64], part: float, seed: int
) -> SentenceRepresentation:
    """Learn a representation from the labelled sentences of a draw and a share of all other text."""
    rows = with_share(task.store.n_rows, labelled, part, seed)
    found = representation_of(run.arguments, task)
    run.fit(f"sketch {part:.0%} of the unlabelled text", found, rows_of(task.store, rows))
    return found


def with_share(n_rows: int, labelled: NDArray[np.int64], part: float, seed: int) -> NDArray[np.int64]:
    """Return the labelled rows and a share of the others in ascending order; a larger share holds a smaller one.

    >>> [with_share(5, np.array([1]), part, seed=0).tolist() for part in (0.0, 0.5, 1.0)]
    [[1], [0, 1, 3], [0, 1, 2, 3, 4]]
    """
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n_rows), labelled))
    return np.sort(np.concatenate([labelled, others[: round(part * len(others))]]))


def rows_of(store: CountStore, rows: NDArray[np.int64]) -> da.Array:
    """Return some rows of a store, in its own blocks; blocks without any are not read."""
    pieces, before = [], 0
    for block, size in enumerate(store.counts.chunks[0]):
        of_block = rows[(rows >= before) & (rows < before + size)] - before
        before += size
        if len(of_block):
            pieces.append(store.counts.blocks[block][of_block])
    return da.concatenate(pieces)


def unlabelled_store(arguments: argparse.Namespace, texts: list[str], path: str) -> CountStore:
    """Count the words of the training sentences, then of the unlabelled text."""
    hashing = SentenceRepresentation(n_features=1 << arguments.columns_bits).word_hashing
    store = build_store(Texts(texts), path, hashing=hashing)
    if arguments.unlabeled:
        store = build_store(arguments.unlabeled, path, unit="line", hashing=hashing, append=True)
    return store


def read_labelled(arguments: argparse.Namespace, side: str) -> tuple[Labelled, list[str]]:
    """Read the sentences of a side that have an intent, and the texts of those that have none."""
    path: str = getattr(arguments, side)
    texts, intents = read_one_label(path, [arguments.label] if arguments.label else ["intent", "label"])
    given = [row for row, intent in enumerate(intents) if intent is not None]
    if not given:
        raise ValueError(f"no sentence of {path} has an intent")
    labelled = Labelled([texts[row] for row in given], np.asarray([intents[row] for row in given]))
    return labelled, [text for text, intent in zip(texts, intents, strict=True) if intent is None]


def drawn(intents: NDArray[Any], n: int | None, seed: int) -> NDArray[np.int64]:
    """Draw n sentences of each intent, or all where there are fewer, and return their numbers."""
    if n is None:
        return np.arange(len(intents))
    order = np.random.default_rng(seed).permutation(len(intents))
    return np.concatenate([order[intents[order] == intent][:n] for intent in np.unique(intents)])


if __name__ == "__main__":
    main()
