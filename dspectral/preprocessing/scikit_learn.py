"""Register the estimators of scikit-learn that can be saved with models."""

from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral.registry import register_class

TRANSFORMERS = ColumnTransformer, FeatureUnion, Pipeline, MaxAbsScaler, Normalizer, StandardScaler
for kind in (*TRANSFORMERS, LogisticRegression, Ridge, LinearSVC):
    # Files use the public module name, its first two components.
    register_class(name=".".join([*kind.__module__.split(".")[:2], kind.__name__]))(kind)
