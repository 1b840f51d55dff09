"""Word embeddings from context counts."""

from dspectral.methods.embeddings.context_vectors import EmbeddingRecipe
from dspectral.methods.embeddings.word_embedding import WordEmbedding

__all__ = ["EmbeddingRecipe", "WordEmbedding"]
