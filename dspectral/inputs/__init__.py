"""The doors of the estimators: rows, sequences, labeled rows and class labels."""
