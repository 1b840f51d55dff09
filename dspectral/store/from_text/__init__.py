"""Build stores and corpora from text: read files and texts, count n-grams or words, and write blocks."""
