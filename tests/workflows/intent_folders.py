"""Folders of drawn data sets in the form of the real ones, for the benchmarks of intents."""

import gzip

from tests.methods.sentences.test_sentences import sentences
from workflows.benchmarks._defaults.intent_sets import SETS


def write_sets(folder, names, *, n_train=150, n_test=120):
    """Write training and test sides of data sets, and public queries; return the folder."""
    for number, name in enumerate(names):
        source = SETS[name]
        for path, n, seed in ((source.train, n_train, 2 * number), (source.test, n_test, 2 * number + 1)):
            texts, intents = sentences(n, seed)
            lines = [f"text\t{source.label}", *(f"{a}\t{b}" for a, b in zip(texts, intents, strict=True))]
            content = ("\n".join(lines) + "\n").encode()
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(gzip.compress(content) if path.endswith(".gz") else content)
    (folder / "queries").mkdir(exist_ok=True)
    lines = "\n".join(sentences(80, 99)[0]) + "\n"
    (folder / "queries" / "some.txt.gz").write_bytes(gzip.compress(lines.encode()))
    return folder
