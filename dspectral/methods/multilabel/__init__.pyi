from .document_rows import label_rows as label_rows
from .document_rows import word_rows as word_rows
from .recipe import MultiLabelRecipe as MultiLabelRecipe
