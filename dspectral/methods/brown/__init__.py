"""Brown clusters of words."""
