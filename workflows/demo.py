"""The main job on text that every Python installation has: docstrings and comments of the standard library.

Documents are labeled by their top-level package. Representations are learned from the leading directions of the
unlabeled part; a few labeled documents a package then train the classifier.
"""

from ._form import form
from ._parts.text_options import add_intent_options


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("demo", __doc__)
    parser.add_argument("--packages", type=form.positive, default=20, metavar="N", help="to tell apart")
    parser.set_defaults(vectors=None)
    add_intent_options(parser)
    # A machine learns a number for each column and package: 2^16 columns do for this much text, and are faster.
    parser.set_defaults(labelled=20, draws=4, shares=[0.0, 0.5, 1.0], n_components=100, columns_bits=16)
    return parser


form.check_options(__name__, options)

from tempfile import TemporaryDirectory

import numpy as np

from dspectral import SentenceRepresentation, Texts, build_store
from dspectral.datasets import standard_library_intents

from ._parts.intent_scores import LabeledTexts, Task
from .intent_classification import classify

QUERIES = ("open a socket and connect to the server", "parse the arguments", "wait until the thread is done")


def main(argv: list[str] | None = None) -> None:
    """Run the demo."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run, TemporaryDirectory(prefix="dspectral-") as scratch:
        with run.measure("read the standard library"):
            found = standard_library_intents(arguments.packages, seed=arguments.seed)
        train = LabeledTexts(found.train_texts, np.asarray(found.train_labels))
        # Texts lie sorted by label, which what is learned from them must not know.
        shuffle = np.random.default_rng(arguments.seed).permutation
        train = train.at(shuffle(len(train.texts)))
        others = [found.unlabeled_texts[i] for i in shuffle(len(found.unlabeled_texts))]
        test = LabeledTexts(found.test_texts, np.asarray(found.test_labels))
        with run.measure("count the unlabeled text"):
            hashing = SentenceRepresentation(n_features=1 << arguments.columns_bits).word_hashing
            texts = Texts([*train.texts, *others])
            counts = build_store(texts, f"{scratch}/unlabeled.zarr", hashing=hashing, block_bytes=1 << 18)
        full = classify(run, Task("standard library", train, test, counts))
        for query, neighbours in nearest(full, found.unlabeled_texts, QUERIES):
            run.note(f"nearest to “{query}”: " + "; ".join(f"“{text}”" for text in neighbours))


def nearest(
    representation: SentenceRepresentation, texts: list[str], queries: tuple[str, ...], k: int = 3
) -> list[tuple[str, list[str]]]:
    """Return the documents whose representations are closest to each query's, shortened to a line."""
    similarity = representation.embed(list(queries)) @ representation.embed(texts).T
    best = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    return [(query, [" ".join(texts[i].split())[:90] for i in row]) for query, row in zip(queries, best, strict=True)]


if __name__ == "__main__":
    main()
