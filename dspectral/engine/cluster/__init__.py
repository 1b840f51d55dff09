"""A pass on a cluster: computed, watched, and ended in a sentence where it cannot go on."""
