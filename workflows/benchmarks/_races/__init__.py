"""Races against other libraries: what each does, the process it does it in, and how they are compared."""
