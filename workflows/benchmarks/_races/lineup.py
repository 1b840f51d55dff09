"""All races by their names."""

from . import brown, embeddings, frequent_directions, hashing, hmm, labels, store, svd, tmpca, vocabulary
from .race import Race

RACES: dict[str, Race] = {
    "svd-topics": svd.TOPICS,
    "svd-text": svd.TEXT,
    "svd-wide-text": svd.WIDE_TEXT,
    "frequent-directions": frequent_directions.RACE,
    "store-write": store.WRITE,
    "store-read": store.READ,
    "hashing": hashing.RACE,
    "vocabulary": vocabulary.RACE,
    "embeddings": embeddings.RACE,
    "brown": brown.RACE,
    "hmm": hmm.RACE,
    "labels": labels.RACE,
    "tmpca": tmpca.RACE,
}
