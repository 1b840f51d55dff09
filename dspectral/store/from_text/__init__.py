"""Text that becomes stores and corpora: how files are read, and how what they hold is counted and written."""
