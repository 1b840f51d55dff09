"""What the columns and metrics of reports mean, for the pages that show them."""

from collections.abc import Iterable
from typing import Any

COLUMNS = {
    "data": "the data set, or the part of it that was scored",
    "method": "the method that was run",
    "metric": "the quantity whose value is given",
    "value": "the result",
    "anchor": "word type that stands for the state",
    "batches": "batches that the rows are cut into",
    "beta": "weight of the similarity of terms",
    "blocks": "blocks of rows in the store",
    "C": "inverse penalty of the linear classifier, larger values fit the training data more closely",
    "context_smoothing": "power of the contexts' counts in the scaling",
    "coverage": "share of the list's words or questions that have vectors",
    "documents": "number of documents",
    "draws": "random draws of the labelled data over which the value is averaged",
    "excess": "residual over the smallest possible residual, less one",
    "family": "the task that methods are compared on",
    "form": "n-gram form of the texts",
    "goal": "the ratio that the project aims at",
    "half": "whether defaults were designed on the data set, or are reported on it",
    "intent": "the class",
    "label_share": "share of the training sentences whose labels were used",
    "labelled": "labelled examples of each class",
    "level": "level of the merge tree, 0 is that of the blocks",
    "length": "tokens of each text",
    "n": "number of items scored",
    "n_clusters": "number of clusters",
    "n_components": "number of components that are kept",
    "n_skipped": "leading vectors that are left out",
    "n_states": "number of hidden states",
    "over_none": "difference from the method none, which learns nothing from unlabelled text",
    "over_share_0": "difference from the same method with share 0: the labelled sentences alone",
    "over_share_0_error": "standard error of over_share_0, paired over draws, or over test items where there is one",
    "over_words": "difference from svm, which knows words alone and needs no vectors",
    "over_words_error": "standard error of over_words, paired over test texts",
    "part": "the whole list, or one of its random halves",
    "passes": "times that each block of the data was read",
    "penalty": "L2 penalty of the tagger, chosen on the development side",
    "power": "power of the singular values in the vectors",
    "refinements": "hidden states of each label",
    "scaling": "how counts are divided by those of their word and context",
    "seconds": "wall seconds of the fit that the share is of",
    "seed": "seed of everything random",
    "side": "the development side, which settings were chosen by, or the test side",
    "seeds": "number of seeds over which the value is averaged",
    "settings": "what was chosen, or given",
    "spread": "standard deviation over the seeds",
    "standard_error": "standard error of the value, or of over_none where that is given",
    "state": "number of the hidden state",
    "tag": "tag that most tokens of the state have",
    "threads": "threads at work",
    "value_error": "standard error of the value over draws, or over test items where there is one",
    "transform": "what is done to each count first",
    "views": "sums over past and future whose settings were chosen",
    "unlabeled": "share of the unlabelled text that was used",
    "window": "words on each side that are contexts",
    "entries": "entries of the store that are not zero",
    "repeats": "number of runs, of which the median is given",
    "sketch_rows": "rows of the sketch",
    "workers": "processes that run tasks, one at a time each",
    "fan_in": "summaries that one merge takes",
    "planned": "what was said before the run",
    "measured": "what the run then took",
    "size": "settings of the configuration",
    "queries": "public queries of other subjects beside the training sentences",
    "tokens": "words of the text, each as often as it stands there",
    "types": "different words",
    "repetition": "number of the repetition, in which all contenders ran in turn",
}
"""Sentences for the fields of rows; only those that a report has are shown."""
METRICS = {
    "accuracy": "share of the test items that are classified correctly",
    "accuracy_3cosadd": "share of analogies answered correctly, by adding vectors",
    "accuracy_gained": "difference of two accuracies on the same items",
    "accuracy_3cosmul": "share of analogies answered correctly, by multiplying similarities",
    "auc": "area under the ROC curve of each document's ranking of labels, averaged over documents",
    "average_mutual_information_bits": "average mutual information of adjacent clusters, in bits",
    "below_true_model": "mean log-likelihood of a token under the model that the text is drawn from, less that of the "
    "model that was learned",
    "bound": "bound on the error that holds before any data is read",
    "bytes": "size on disk",
    "bytes_per_entry": "bytes on disk of an entry that is not zero",
    "certificate": "bound on the error that the sketch computed from its own data",
    "columns": "columns of the store",
    "cpu_ratio": "CPU seconds over those of the first contender in the same repetition: the median",
    "cpu_ratio_lower_quartile": "lower quartile of cpu_ratio over the repetitions",
    "cpu_ratio_upper_quartile": "upper quartile of cpu_ratio over the repetitions",
    "cpu_seconds": "user and system time of all processes",
    "differing_columns": "columns whose sums differ",
    "documents": "documents that hold a word",
    "documents_per_second": "documents per second of wall-clock time",
    "energy": "sum of the squares of all entries",
    "energy_lost": "share that is missing of the energy that the best components of this number hold",
    "error": "spectral norm of the error of the sketched Gram matrix",
    "error_over_energy": "spectral norm of the error of the sketched Gram matrix, over the energy",
    "error_rate": "share of the test texts that are classified wrongly",
    "f1": "F1 of named entities: type and both ends must be right",
    "f1_macro": "F1 on the test documents, averaged over labels",
    "f1_micro": "F1 on the test documents, over all labels together",
    "f1_weighted": "F1 on the test documents, averaged over labels by their number of documents",
    "frame_accuracy": "share of frames with the right label",
    "held_out_accuracy": "share of frames with the right label in held-out training sequences",
    "inner_error_rate": "error rate in the cross-validation of the training texts",
    "label_error_rate": "edits of the label sequence per true label",
    "log_likelihood": "mean log-likelihood of a token of text that was not learned from",
    "many_to_one": "accuracy when each state is read as its most frequent tag",
    "nnz": "entries of the store that are not zero",
    "not_run": "why the contender did not run, or not to the end",
    "one_to_one": "accuracy when each state is matched with at most one tag",
    "peak_memory_bytes": "largest resident memory of any process",
    "recall": "share of the class's test items that are found",
    "repetitions": "runs that ended, of which medians are given",
    "rows": "rows of the store",
    "same_class_nearest": "share of the words whose nearest neighbor is of their class in the model",
    "sum_differs_by": "difference of the sum of what was read from what was written",
    "certificate_share": "largest certificate on a level of the merge tree, as a share of the energy beneath",
    "certificate_over_error": "certificate over the true error: 1 is best",
    "exponent_of_cpu_seconds": "power of the length that the CPU time grows with",
    "exponent_of_working_memory_bytes": "power of the length that the memory grows with",
    "seconds_over_product": "wall-clock time over that of the product of the matrix with its transpose",
    "seconds": "wall-clock time",
    "spearman": "rank correlation of cosine similarities with people's judgements",
    "sentences": "sentences that hold a word, cut at punctuation",
    "tokens": "tokens of the state, or of the whole text",
    "types": "different words",
    "v_measure": "harmonic mean of homogeneity and completeness",
    "working_memory_bytes": "largest resident memory, less what was resident before",
}
"""Sentences for the values of the field ``metric``."""


def explained(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return what the columns and metrics of rows mean, as far as it is known, in order of appearance.

    Parameters
    ----------
    rows : iterable of dict
        Rows of a report.

    Returns
    -------
    dict of str to str
        Sentences by the name of the column or metric.

    Examples
    --------
    >>> list(explained([{"data": "a", "metric": "seconds", "value": 1.0}, {"data": "b", "color": "red"}]))
    ['data', 'metric', 'value', 'seconds']
    """
    rows = list(rows)
    fields = dict.fromkeys(field for row in rows for field in row if field in COLUMNS)
    metrics = dict.fromkeys(row["metric"] for row in rows if row.get("metric") in METRICS)
    return {name: COLUMNS[name] for name in fields} | {name: METRICS[name] for name in metrics}
