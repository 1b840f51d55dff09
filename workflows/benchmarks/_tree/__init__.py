"""A merge tree on many machines: its tasks as events, times measured here, and runs to hold it against."""
