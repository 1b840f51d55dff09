"""Word embeddings from context counts."""
