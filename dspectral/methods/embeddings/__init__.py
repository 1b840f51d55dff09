"""Word embeddings from context counts."""

__all__: list[str] = []
