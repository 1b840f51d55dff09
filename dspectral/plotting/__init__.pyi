from .brown_tree import plot_brown_tree as plot_brown_tree
from .merge_trees import plot_merge_tree as plot_merge_tree
from .spectra import plot_certificate as plot_certificate
from .spectra import plot_spectrum as plot_spectrum
from .word_map import plot_words as plot_words
