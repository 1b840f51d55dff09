"""What programs are made of: readers of data, features and baselines."""
