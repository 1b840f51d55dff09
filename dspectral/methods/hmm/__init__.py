"""Hidden Markov models: by expectation maximization, from anchor words, and with refined labels."""
