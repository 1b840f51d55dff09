"""Race dspectral's vocabulary kernels against pyarrow's dictionary, grouping and look-up functions.

Four steps of building rows over an exact vocabulary of 1- to 3-grams: counting the words of a block, counting its
n-grams, merging the tables of two blocks, and looking up the n-grams of a block of 1 MB in the merged vocabulary. Both
begin from the same tokens, and their results are checked to be equal. Each step is timed on one thread, in turn, and
the least CPU time counts.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from dspectral.text import Documents, TermIndex, TermTable, Tokens, encode_documents, gather, tokenize

from .._form import form
from .hashing import read_texts

BLOCK_BYTES = 1 << 20
"""Bytes of the block whose n-grams are looked up."""


class Step(NamedTuple):
    """One step, done by both, and a function that says whether the results are equal."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    equal: Callable[[Any, Any], bool]


def main(argv: list[str] | None = None) -> None:
    """Run the race."""
    parser = form.parser("benchmarks.vocabulary", __doc__, fits=False)
    parser.add_argument(
        "--text",
        nargs="+",
        metavar="FILE",
        help="text files, also .gz, or patterns of them (default: Python's docstrings)",
    )
    parser.add_argument(
        "--documents", type=form.positive, metavar="N", help="take the first N documents only (default: all)"
    )
    parser.add_argument("--repeats", type=form.positive, default=3, help="of each timing")
    with form.run(parser.parse_args(argv)) as run:
        pa.set_cpu_count(1)
        texts = read_texts(run.arguments)
        data = ", ".join(run.arguments.text or ["standard library"])
        for step in steps(texts):
            with run.measure(step.name):
                if not step.equal(step.ours(), step.theirs()):  # also compiles the kernels
                    raise RuntimeError(f"{step.name}: the results differ")
                seconds = {
                    who: least_seconds(getattr(step, who), run.arguments.repeats)
                    for who in ("ours", "theirs")
                }
            for method, who in (("dspectral", "ours"), ("pyarrow", "theirs")):
                run.row(data=data, method=method, metric=f"{step.name} cpu_seconds", value=seconds[who])
            ratio = seconds["theirs"] / seconds["ours"]
            run.row(data=data, method="pyarrow", metric=f"{step.name} ratio_to_dspectral", value=ratio)
        run.passes = 1


def steps(texts: Sequence[str]) -> list[Step]:
    """Return the four steps on two halves of the documents."""
    half = len(texts) // 2
    one, two = Documents.of(list(texts[:half])), Documents.of(list(texts[half:]))
    tokens = tokenize(one)
    a, b = TermTable.of(one, (1, 3)), TermTable.of(two, (1, 3))
    whole = a.merge(b)
    index, terms = TermIndex.of(whole.terms), as_arrow(whole.terms)
    n_small = max(1, int(np.searchsorted(one.offsets, BLOCK_BYTES)) - 1)
    small = Documents.of(list(texts[:n_small]))
    return [
        Step("count words", lambda: TermTable.of(one), lambda: arrow_words(tokenize(one)), same_words),
        Step(
            "count n-grams",
            lambda: TermTable.of(one, (1, 3)).counts,
            lambda: arrow_ngrams(tokens),
            same_counts,
        ),
        Step("merge", lambda: a.merge(b).counts, lambda: arrow_merge(a, b), np.array_equal),
        Step(
            "look up",
            lambda: encode_documents(small, index, (1, 3)),
            lambda: arrow_rows(small, terms),
            same_rows,
        ),
    ]


def least_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Return the least CPU time of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def as_arrow(terms: Documents) -> Any:
    """Return terms as an Arrow array of bytes, which shares their memory."""
    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(terms.offsets)),
        pa.py_buffer(np.ascontiguousarray(terms.data)),
    ]
    return pa.Array.from_buffers(pa.large_binary(), terms.n_documents, buffers)


def numbered(tokens: Tokens) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct words in the order of bytes, the number of each word, and its document."""
    words = gather(tokens.text, tokens.starts[:-1], tokens.starts[1:] - 1)
    found = as_arrow(words).dictionary_encode()
    order = pc.sort_indices(found.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    document = np.repeat(np.arange(len(tokens.bounds) - 1), np.diff(tokens.bounds))
    return found.dictionary.take(order), rank[found.indices.to_numpy()], document


def frequencies(numbers: NDArray[np.int64], document: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return in how many documents each number is."""
    return np.bincount(pc.unique(pa.array(document * n + numbers)).to_numpy() % n, minlength=n)


def arrow_words(tokens: Tokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the counts and document frequencies of words in the order of their bytes."""
    terms, numbers, document = numbered(tokens)
    return np.bincount(numbers), frequencies(numbers, document, len(terms))


def arrow_ngrams(tokens: Tokens) -> list[NDArray[np.int64]]:
    """Return the counts of 1-, 2- and 3-grams, each in the order of the keys of their words."""
    terms, words, document = numbered(tokens)
    end = np.repeat(tokens.bounds[1:], np.diff(tokens.bounds))
    numbers, counts = words, []
    for length in (1, 2, 3):
        place = np.flatnonzero(np.arange(len(words)) + length <= end)
        keys = numbers[place] * len(terms) + words[place + length - 1] if length > 1 else words
        found = pa.array(keys).dictionary_encode()
        order = np.argsort(found.dictionary.to_numpy())
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        here = rank[found.indices.to_numpy()]
        frequencies(here, document[place], len(order))
        counts.append(np.bincount(here))
        numbers = np.zeros(len(words), dtype=np.int64)
        numbers[place] = here
    return counts


def arrow_merge(a: TermTable, b: TermTable) -> NDArray[np.int64]:
    """Return the counts of the terms of two tables together, in the order of their bytes."""
    both = pa.concat_arrays([as_arrow(a.terms), as_arrow(b.terms)])
    fields = {"term": both, "count": np.concatenate([a.counts, b.counts])}
    fields["frequency"] = np.concatenate([a.document_frequency, b.document_frequency])
    groups = pa.table(fields).group_by("term", use_threads=False)
    return groups.aggregate([("count", "sum"), ("frequency", "sum")]).sort_by("term")["count_sum"].to_numpy()


def arrow_rows(documents: Documents, terms: Any) -> sparse.csr_array:
    """Return counts of the n-grams of documents that are among the terms."""
    tokens = tokenize(documents)
    document = np.repeat(np.arange(len(tokens.bounds) - 1), np.diff(tokens.bounds))
    end = np.repeat(tokens.bounds[1:], np.diff(tokens.bounds))
    rows, columns = [], []
    for length in (1, 2, 3):
        place = np.flatnonzero(np.arange(len(document)) + length <= end)
        slices = gather(tokens.text, tokens.starts[place], tokens.starts[place + length] - 1)
        columns.append(pc.index_in(as_arrow(slices), value_set=terms).fill_null(-1).to_numpy())
        rows.append(document[place])
    row, column = np.concatenate(rows), np.concatenate(columns)
    known = column >= 0
    entries = (np.ones(int(known.sum()), np.float32), (row[known], column[known]))
    return sparse.csr_array(sparse.coo_array(entries, shape=(documents.n_documents, len(terms))))


def same_words(ours: TermTable, theirs: tuple[NDArray[np.int64], NDArray[np.int64]]) -> bool:
    """Report whether counts and document frequencies are equal."""
    return np.array_equal(ours.counts, theirs[0]) and np.array_equal(ours.document_frequency, theirs[1])


def same_counts(ours: NDArray[np.int64], theirs: list[NDArray[np.int64]]) -> bool:
    """Report whether the counts are equal in any order: ours are sorted by bytes over all lengths."""
    return np.array_equal(np.sort(ours), np.sort(np.concatenate(theirs)))


def same_rows(ours: sparse.csr_array, theirs: sparse.csr_array) -> bool:
    """Report whether two matrices are equal."""
    return ours.shape == theirs.shape and not (ours != theirs).nnz


if __name__ == "__main__":
    main()
