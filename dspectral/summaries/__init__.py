"""What a block of rows leaves behind, and how two of them merge."""
