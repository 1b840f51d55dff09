from .classifier import MomentMultiLabelClassifier as MomentMultiLabelClassifier
from .document_rows import label_rows as label_rows
from .document_rows import word_rows as word_rows
from .ranking import Topic as Topic
from .recipe import MultiLabelRecipe as MultiLabelRecipe
