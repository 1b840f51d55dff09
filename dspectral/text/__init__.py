"""Text to tokens, terms, counts and ids: kernels on the bytes of one block."""
