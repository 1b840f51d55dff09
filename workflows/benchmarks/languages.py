"""Explore treebanks of Universal Dependencies, and count the function words among the words of topics by gold tags.

Each folder ``DATA/NAME`` with files ``*.conllu`` is one text. A document is six sentences of one ``# newdoc``, or one
sentence where there is none. A shown word counts as what its characters are tagged as most often. ``vague_topics`` is
the share of topics of which at least three of seven words are adverbs, pronouns, conjunctions, particles and the like;
coherence is NPMI of a topic's words over the documents.
"""

import re
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspectral import explore

from .._form import form

CONTENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ"})
N_WORDS, N_SENTENCES, N_VAGUE = 7, 6, 3


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = form.parser("benchmarks.languages", __doc__, fits=False)
    parser.add_argument(
        "--data", type=form.local_path, required=True, metavar="DIR", help="folder of folders of .conllu files"
    )
    parser.add_argument("--names", nargs="*", metavar="NAME", help="folders to read (default: all)")
    parser.add_argument("--pages", type=form.local_path, metavar="DIR", help="folder for the pages (default: none)")
    with form.run(parser.parse_args(argv)) as run:
        arguments = run.arguments
        for folder in sorted(path for path in arguments.data.iterdir() if any(path.glob("*.conllu"))):
            if not arguments.names or folder.name in arguments.names:
                with run.measure(folder.name):
                    values = measure(folder, arguments.pages)
                run.rows(values, data=folder.name, method="explore")


def measure(folder: Path, pages: Path | None) -> dict[str, float]:
    """Return the number of topics that have a subject, and what their words are."""
    documents = list(read_documents(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small texts
        exploration = explore(texts=[text for text, _ in documents])
    if pages is not None:
        pages.mkdir(parents=True, exist_ok=True)
        exploration.save(pages / f"{folder.name}.html")
    topics = [topic.words[:N_WORDS] for topic in exploration.topics if getattr(topic, "has_subject", True)]
    words = sorted({word for topic in topics for word in topic})
    if not words:
        return {"documents": len(documents), "topics": 0}
    is_content, rows = tag_words(words, documents)
    coherence = [measure_coherence([rows[word] for word in topic], len(documents)) for topic in topics]
    n_vague = [sum(not is_content[word] for word in topic) for topic in topics]
    return {
        "documents": len(documents),
        "topics": len(topics),
        "vague_words": sum(n_vague) / sum(map(len, topics)),
        "vague_topics": float(np.mean([n >= N_VAGUE for n in n_vague])),
        "coherence": float(np.mean(coherence)),
    }


def read_documents(folder: Path) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the text of each document, and which of its characters are of content words."""
    for path in sorted(folder.glob("*.conllu")):
        text, marks, n_sentences, has_documents = "", [], 0, False
        for sentence in path.read_text(encoding="utf-8").split("\n\n"):
            starts = "# newdoc" in sentence
            if text and (starts or n_sentences == N_SENTENCES or not has_documents):
                yield text, np.concatenate(marks)
                text, marks, n_sentences = "", [], 0
            has_documents |= starts
            if (line := re.search(r"^# text = *(.*\S)", sentence, re.MULTILINE)) is not None:
                is_content = np.zeros(len(line[1]) + 1, dtype=bool)
                start = stop = end = 0
                for row in sentence.split("\n"):
                    number, form_, _, tag = (row.split("\t") + 3 * [""])[:4]
                    first, _, last = number.partition("-")
                    if first.isdigit() and (last or int(first) > end):
                        start = line[1].find(form_, stop)
                        stop, end = start + len(form_), int(last or first)
                    if first.isdigit() and not last:  # a contraction counts as its content words
                        is_content[start:stop] |= tag in CONTENT
                text, n_sentences = f"{text}{line[1]} ", n_sentences + 1
                marks.append(is_content)
        if text:
            yield text, np.concatenate(marks)


def tag_words(
    words: list[str], documents: list[tuple[str, NDArray[np.bool_]]]
) -> tuple[dict[str, bool], dict[str, set[int]]]:
    """Return whether each word is mostly a content word, and the documents that have it."""
    text = "".join(
        letter.lower() if len(letter.lower()) == 1 else letter for document, _ in documents for letter in document
    )
    marks = np.concatenate([mark for _, mark in documents])
    ends = np.cumsum([len(document) for document, _ in documents])
    is_content, rows = {}, {}
    for word in words:
        # A pair of characters stands anywhere; words of other scripts may be stems.
        spans = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(word)}", text)]
        spans = spans or [match.span() for match in re.finditer(re.escape(word), text)]
        inside = [marks[start:end].mean() for start, end in spans]
        is_content[word] = bool(np.mean(inside) >= 0.5) if inside else True
        rows[word] = set(np.searchsorted(ends, [start for start, _ in spans], side="right").tolist())
    n = len(documents)
    return is_content, {word: {row for row in found if row < n} for word, found in rows.items()}


def measure_coherence(rows: list[set[int]], n_documents: int) -> float:
    """Return the mean NPMI of all pairs of words; -1 for a pair that no document has."""
    values = [-1.0]
    for first, second in combinations(rows, 2):
        joint = len(first & second) / n_documents
        expected = len(first) * len(second) / n_documents**2
        values.append(np.log(joint / expected) / -np.log(joint) if 0 < joint < 1 else -1.0)
    return float(np.mean(values[1:] or values))


if __name__ == "__main__":
    main()
