"""One short program for each question a user has: ``python -m workflows.NAME --help``."""
