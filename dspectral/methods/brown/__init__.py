"""Brown clusters of words."""

__all__: list[str] = []
