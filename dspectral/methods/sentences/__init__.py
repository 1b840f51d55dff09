"""Sentence representations, and a classifier of intents."""

from dspectral.methods.sentences.intent import IntentClassifier, IntentRecipe
from dspectral.methods.sentences.mean_vectors import WordVectorRepresentation
from dspectral.methods.sentences.representation import SentenceRecipe, SentenceRepresentation

__all__ = [
    "IntentClassifier",
    "IntentRecipe",
    "SentenceRecipe",
    "SentenceRepresentation",
    "WordVectorRepresentation",
]
