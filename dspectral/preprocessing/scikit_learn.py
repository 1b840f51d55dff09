"""Register the estimators of scikit-learn that can be saved with models."""

from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dspectral.registry import Array, register_arrays, register_class

TRANSFORMERS = ColumnTransformer, FeatureUnion, Pipeline, MaxAbsScaler, Normalizer, StandardScaler
for kind in (*TRANSFORMERS, LogisticRegression, Ridge, LinearSVC):
    # Files use the public module name, its first two components.
    register_class(kind, ".".join([*kind.__module__.split(".")[:2], kind.__name__]))

_FEATURES = Array("n_features_in_", optional=True)
register_arrays({"scale_": _FEATURES, "mean_": _FEATURES, "var_": _FEATURES})(StandardScaler)
register_arrays({"scale_": _FEATURES, "max_abs_": _FEATURES})(MaxAbsScaler)
_LINEAR = {
    "classes_": Array("classes_", ""),
    "coef_": Array("1 n_features_in_;classes_ n_features_in_"),
    "intercept_": Array("1;classes_", optional=True),
}
register_arrays({**_LINEAR, "n_iter_": Array("*", "i")})(LogisticRegression)
register_arrays(_LINEAR)(LinearSVC)
register_arrays({"coef_": Array("n_features_in_;k n_features_in_"), "intercept_": Array(";k", optional=True)})(Ridge)
