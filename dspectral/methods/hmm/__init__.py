"""Hidden Markov models of token sequences: by EM, with anchor words, and with latent refinements of labels.

Estimators are imported when they are asked for: data sets are drawn from chains on workers that need no scikit-learn.
"""

__all__: list[str] = []
