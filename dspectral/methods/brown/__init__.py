"""Brown clustering of words."""

__all__: list[str] = []
