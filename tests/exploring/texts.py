"""A small text with two subjects, in which sea words and garden words never share a document."""

import numpy as np

SEA = [
    "ship",
    "sail",
    "wave",
    "captain",
    "harbor",
    "anchor",
    "storm",
    "deck",
    "mast",
    "sailor",
    "tide",
    "reef",
]
GARDEN = [
    "rose",
    "spade",
    "hedge",
    "tulip",
    "lawn",
    "gardener",
    "seed",
    "shed",
    "apple",
    "orchard",
    "worm",
    "bee",
]
VERBS = ["saw", "held", "found", "left", "kept", "met"]
PLACES = ["here", "there", "now", "again"]


def two_subjects(n: int = 240, *, seed: int = 0) -> list[str]:
    """Documents of two sentences each, all about the sea or all about a garden."""
    rng = np.random.default_rng(seed)
    documents = []
    for i in range(n):
        nouns = rng.choice(SEA if i % 2 else GARDEN, 4, replace=False)
        verbs, place = rng.choice(VERBS, 2), rng.choice(PLACES)
        documents.append(f"The {nouns[0]} {verbs[0]} a {nouns[1]} {place}. The {nouns[2]} {verbs[1]} the {nouns[3]}.")
    return documents
