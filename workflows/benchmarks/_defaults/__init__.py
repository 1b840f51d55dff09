"""What a person gets without tuning: one file for each family of methods."""
