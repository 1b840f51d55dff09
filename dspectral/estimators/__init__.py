"""scikit-learn faces; each fit reads as its recipe."""
