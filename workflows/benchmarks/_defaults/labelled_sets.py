"""Data sets of documents with many labels, as stores of training and test documents."""

import argparse
import csv
import gzip
import json
from pathlib import Path
from typing import Any

from dspectral.store import CountStore

from ..._parts.multilabel_stores import stores

NAMES = (
    "bibtex",
    "enron",
    "goemotions",
    "medical",
    "ohsumed-f",
    "rcv1-subset1",
    "reuters21578",
    "tmc2007-500",
)
"""Folders of the data sets."""
TERMS = 8000
"""Most frequent terms that are kept of texts."""


def read_set(data: Path, name: str, scratch: str, seed: int) -> tuple[CountStore, CountStore]:
    """Return the training and the test documents of a data set."""
    Path(scratch).mkdir(parents=True, exist_ok=True)
    if name == "reuters21578":
        folder = data / name
        sides: Any = {side: str(folder / f"modapte_{side}.jsonl.gz") for side in ("train", "test")}
        asked = {"format": "records", "text": ["title", "text"], "label": "topics", **sides}
    elif name == "goemotions":
        sides = {
            side: _with_lists(
                data / "multilabel" / name / f"{side}.tsv.gz", Path(scratch) / f"{side}-records.jsonl"
            )
            for side in ("train", "test")
        }
        asked = {"format": "records", "text": ["text"], "label": "labels", **sides}
    else:
        folder = data / "multilabel" / name
        whole = folder / "all.txt.gz"
        train, test = (whole, None) if whole.exists() else (folder / "train.txt.gz", folder / "test.txt.gz")
        asked = {"format": "extreme", "train": str(train), "test": None if test is None else str(test)}
    shared = {"one_based": False, "test_share": 0.5, "seed": seed, "min_documents": 2, "terms": TERMS}
    return stores(argparse.Namespace(**shared, **asked), f"{scratch}")


def _with_lists(path: Path, out: Path) -> str:
    """Rewrite records whose labels are joined by commas as JSON, where they are a list."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file, out.open("w", encoding="utf-8") as to:
        for record in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            labels = record["label_ids"].split(",")
            to.write(json.dumps({"text": record["text"], "labels": labels}) + "\n")
    return str(out)
