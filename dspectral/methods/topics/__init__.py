"""Topics of a text: leading directions of its documents, rotated until each document lies near few of them."""

__all__: list[str] = []
