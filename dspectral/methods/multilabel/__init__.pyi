from .documents import word_rows as word_rows
from .recipe import MultiLabelRecipe as MultiLabelRecipe
