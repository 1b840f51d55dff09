"""Word embeddings from context counts."""

from dspectral.methods.embeddings.recipe import EmbeddingRecipe
from dspectral.methods.embeddings.word_embedding import WordEmbedding

__all__ = ["EmbeddingRecipe", "WordEmbedding"]
