"""The estimators of scikit-learn that are saved with models: those that are plain parameters and arrays."""

from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral.registry import saved

TRANSFORMERS = ColumnTransformer, FeatureUnion, Pipeline, MaxAbsScaler, Normalizer, StandardScaler
for kind in (*TRANSFORMERS, LogisticRegression, Ridge, LinearSVC):
    # By the public module, the first two parts of its own, which is part of the name in files.
    saved(kind, ".".join([*kind.__module__.split(".")[:2], kind.__name__]))
