"""Sentence representations, and a classifier of intents."""

from dspectral.methods.sentences.intent import IntentClassifier
from dspectral.methods.sentences.mean_vectors import WordVectorRepresentation
from dspectral.methods.sentences.recipe import IntentRecipe, SentenceRecipe
from dspectral.methods.sentences.representation import SentenceRepresentation

__all__ = [
    "IntentClassifier",
    "IntentRecipe",
    "SentenceRecipe",
    "SentenceRepresentation",
    "WordVectorRepresentation",
]
