from .labels import pair_with_labels as pair_with_labels
from .rows import SparseOutput as SparseOutput
from .rows import validate_rows as validate_rows
from .sequences import as_labeled_corpus as as_labeled_corpus
