"""Transform texts to rows of hashed n-grams, and counts to tf-idf weights."""

__all__: list[str] = []
