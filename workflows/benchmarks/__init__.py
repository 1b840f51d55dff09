"""Races against other libraries, on the same data in the same run."""
