from .anndata import write_anndata as write_anndata
from .anndata import write_embedding as write_embedding
from .brown_paths import read_brown_paths as read_brown_paths
from .brown_paths import write_brown_paths as write_brown_paths
from .conll import TaggedSentences as TaggedSentences
from .conll import read_conll as read_conll
from .labelled_documents import (
    LabelledText as LabelledText,
)
from .labelled_documents import (
    read_labelled_records as read_labelled_records,
)
from .labelled_documents import (
    read_newsgroups as read_newsgroups,
)
from .labelled_documents import (
    read_reuters as read_reuters,
)
from .labelled_text import (
    build_labelled_store as build_labelled_store,
)
from .labelled_text import (
    write_labelled_text as write_labelled_text,
)
from .word2vec import read_word2vec as read_word2vec
from .word2vec import write_word2vec as write_word2vec
