from .labels import labelled_streams as labelled_streams
from .rows import SparseOutput as SparseOutput
from .rows import checked_rows as checked_rows
from .sequences import as_labelled as as_labelled
