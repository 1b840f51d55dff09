"""Topics of a text: leading directions of its documents, rotated until each document lies near few of them."""

from dspectral.methods.topics.estimator import TopDocument, Topics

__all__ = ["TopDocument", "Topics"]
