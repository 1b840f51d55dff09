"""Classify the intent of sentences with representations that are learned from unlabeled text.

The words of the training sentences, without labels, and of the unlabeled text are counted into a store, and its leading
directions are computed. The test sentences are not used. With `--labelled N`, N training sentences of each intent keep
their labels, and the others are unlabeled text. With `--shares`, the representation uses the labeled sentences and a
share of the unlabeled text. Methods: `none` is a Crammer-Singer SVM on hashed n-grams; `vectors` adds averaged word
vectors; `sent` adds the representation of equation 2 of the paper; `sent+` also adds the first two words and the scores
of a supervised model. `characters` is the default of the library: `sent` with n-grams of characters within words.
`--method` adds one more: `sketch` uses unweighted directions of words, `idf` inverse document
frequencies alone, and `idf+sent` both. `auto` is the method of highest cross-validated accuracy. C and the weights are
chosen by cross-validation on the training sentences.
"""

import argparse

from ._form import form
from ._parts.text_options import add_intent_options


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("intent_classification", __doc__)
    add = parser.add_argument
    about = "labeled sentences with the fields text and intent, as jsonl, CSV, TSV or Parquet"
    add("--train", required=True, metavar="FILE", help=about)
    add("--test", required=True, metavar="FILE", help="sentences to classify, in the same form")
    add("--label", metavar="FIELD", help="field of the intent (default: intent, or label)")
    about = "text, one sentence a line; also .gz, URLs (default: none)"
    add("--unlabeled", nargs="*", default=[], metavar="FILE", help=about)
    about = "word vectors in word2vec's text or binary format (default: learned here)"
    add("--vectors", metavar="W2V", help=about)
    add_intent_options(parser)
    return parser


form.check_options(__name__, options)

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

from ._parts.intent_scores import LabeledTexts, Scores, Task
from ._parts.labeled_documents import name_of, not_learned, note_not_learned
from ._parts.labeled_texts import read_one_label

PAPER = IntentRecipe(characters=False)
"""Features of the paper: no character n-grams."""
PENALTIES, WEIGHTS = (0.3, 1.0, 3.0), (0.5, 1.0)
"""Candidates of the cross-validation; `none` also tries C=10."""


def main(argv: list[str] | None = None) -> None:
    """Learn, classify, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        (train, others), (test, unlabeled) = (read_labeled(arguments, side) for side in ("train", "test"))
        unseen = not_learned(([intent] for intent in test.intents.tolist()), train.intents.tolist())
        note_not_learned(run, unseen, len(unlabeled))
        # Files are often sorted by intent, which the representation must not use.
        train = train.at(np.random.default_rng(arguments.seed).permutation(len(train.texts)))
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            with run.measure("count the unlabeled text"):
                store = build_unlabeled_store(arguments, [*train.texts, *others], f"{scratch}/unlabeled.zarr")
            classify(run, Task(name_of(arguments.train), train, test, store))


def classify(run: form.Run, task: Task) -> SentenceRepresentation:
    """Score every method at every share and draw; return the representation of all of the text."""
    arguments = run.arguments
    shares = sorted({*arguments.shares, 1.0})
    full = make_representation(arguments, task)
    run.fit("sketch all of the text", full, task.store)
    run.note(
        f"{task.name}: {len(task.train.texts)} training and {len(task.test.texts)} test sentences, "
        f"{task.store.n_rows} sentences of text, {len(full.words_)} words with a vector; the sketch's "
        f"certificate is {full.certificate_.relative:.2e} of the energy"
    )
    scores = Scores(run, task)
    for draw in range(arguments.draws if arguments.labelled else 1):
        rows = draw_labeled(task.train.intents, arguments.labelled, arguments.seed + draw)
        train = task.train.at(rows)
        none = scores.fit("none", train, IntentClassifier(C=(*PENALTIES, 10.0), recipe=PAPER), shares)
        if arguments.vectors:
            words, table = read_word2vec(arguments.vectors, errors="replace")
            vectors = WordVectorRepresentation(words, table, n_features=full.n_features)
            scores.fit("vectors", train, with_choices(vectors), shares)
        for part in shares:
            learned = full if part == 1.0 else fit_share(run, task, rows, part, arguments.seed + draw)
            model = fit_methods(scores, arguments.method, train, learned, part, none)
        run.save(lambda path, model=model: dspectral.save(model, path))
    scores.report()
    return full


def fit_methods(
    scores: Scores,
    method: str,
    train: LabeledTexts,
    learned: SentenceRepresentation,
    part: float,
    none: IntentClassifier,
) -> IntentClassifier:
    """Fit the methods for one share of the text, and return the model to save."""
    models = {"sent": scores.fit("sent", train, with_choices(learned), [part])}
    # SENT+ takes C and weight from here instead of choosing them again.
    choice = models["sent"].choice_
    plus = IntentClassifier(learned, plus=True, C=choice.C, weights=choice.weight)
    plus = scores.fit("sent+", train, plus, [part])
    characters = scores.fit("characters", train, IntentClassifier(learned), [part])
    for half in SentenceRepresentation.half_kinds:
        if half != "sent" and method in ("auto", half):
            models[half] = scores.fit(half, train, with_choices(learned, IntentRecipe(half, characters=False)), [part])
    if method == "auto":
        return scores.choose({**models, "none": none}, part)
    return {**models, "sent+": plus, "characters": characters}[method]


def with_choices(
    representation: SentenceRepresentation | WordVectorRepresentation, recipe: IntentRecipe = PAPER
) -> IntentClassifier:
    """Return a classifier that chooses its penalty and the weight of the representation."""
    return IntentClassifier(representation, C=PENALTIES, weights=WEIGHTS, recipe=recipe)


def make_representation(arguments: argparse.Namespace, task: Task) -> SentenceRepresentation:
    """Return the unfitted representation."""
    return SentenceRepresentation(arguments.n_components, n_features=task.store.n_columns, random_state=arguments.seed)


def fit_share(run: form.Run, task: Task, labeled: NDArray[np.int64], part: float, seed: int) -> SentenceRepresentation:
    """Fit a representation to the labeled sentences of a draw and a share of all other text."""
    rows = select_share(task.store.n_rows, labeled, part, seed)
    model = make_representation(run.arguments, task)
    run.fit(f"sketch {part:.0%} of the unlabeled text", model, select_rows(task.store, rows))
    return model


def select_share(n_rows: int, labeled: NDArray[np.int64], part: float, seed: int) -> NDArray[np.int64]:
    """Return the labeled rows and a share of the others, ascending; larger shares contain smaller ones.

    >>> [select_share(5, np.array([1]), part, seed=0).tolist() for part in (0.0, 0.5, 1.0)]
    [[1], [0, 1, 3], [0, 1, 2, 3, 4]]
    """
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n_rows), labeled))
    return np.sort(np.concatenate([labeled, others[: round(part * len(others))]]))


def select_rows(store: CountStore, rows: NDArray[np.int64]) -> da.Array:
    """Return some rows of a store as a Dask array that reads only their blocks."""
    blocks, start = [], 0
    for block, size in enumerate(store.counts.chunks[0]):
        offsets = rows[(rows >= start) & (rows < start + size)] - start
        start += size
        if len(offsets):
            blocks.append(store.counts.blocks[block][offsets])
    return da.concatenate(blocks)


def build_unlabeled_store(arguments: argparse.Namespace, texts: list[str], path: str) -> CountStore:
    """Count the words of the training sentences and of the unlabeled text into a store."""
    hashing = SentenceRepresentation(n_features=1 << arguments.columns_bits).word_hashing
    store = build_store(Texts(texts), path, hashing=hashing)
    if arguments.unlabeled:
        store = build_store(arguments.unlabeled, path, unit="line", hashing=hashing, append=True)
    return store


def read_labeled(arguments: argparse.Namespace, side: str) -> tuple[LabeledTexts, list[str]]:
    """Read the sentences of `train` or `test` with an intent, and the texts of those without."""
    path: str = getattr(arguments, side)
    texts, intents = read_one_label(path, [arguments.label] if arguments.label else ["intent", "label"])
    has_intent = [row for row, intent in enumerate(intents) if intent is not None]
    if not has_intent:
        raise ValueError(f"no sentence of {path} has an intent: label some of them")
    labeled = LabeledTexts([texts[row] for row in has_intent], np.asarray([intents[row] for row in has_intent]))
    return labeled, [text for text, intent in zip(texts, intents, strict=True) if intent is None]


def draw_labeled(intents: NDArray[Any], n: int | None, seed: int) -> NDArray[np.int64]:
    """Return the numbers of n random sentences of each intent, or of all if there are fewer."""
    if n is None:
        return np.arange(len(intents))
    order = np.random.default_rng(seed).permutation(len(intents))
    return np.concatenate([order[intents[order] == intent][:n] for intent in np.unique(intents)])


if __name__ == "__main__":
    main()
