"""Data sets and families of methods for the program ``defaults``."""
