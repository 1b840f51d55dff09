"""One package a family of methods, each with its own kernels, summaries, solvers and estimators."""

__all__: list[str] = []
