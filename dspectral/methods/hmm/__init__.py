"""Hidden Markov models of token sequences: by EM, with anchor words, and with latent refinements of labels."""

__all__: list[str] = []
