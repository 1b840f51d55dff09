"""Fits on clusters of real processes, to which faults happen: each ends in the bits of a calm fit, or in a sentence."""
