"""The estimators of scikit-learn that are saved with models: those that are plain parameters and arrays."""

from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral.registry import saved

SAVED = {
    "sklearn.compose": (ColumnTransformer,),
    "sklearn.linear_model": (LogisticRegression, Ridge),
    "sklearn.pipeline": (FeatureUnion, Pipeline),
    "sklearn.preprocessing": (MaxAbsScaler, Normalizer, StandardScaler),
    "sklearn.svm": (LinearSVC,),
}
"""By the public module, which is part of the name in files."""

for module, classes in SAVED.items():
    for kind in classes:
        saved(kind, f"{module}.{kind.__name__}")
