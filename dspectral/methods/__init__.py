"""Methods: one package per family, with its kernels, summaries, solvers and estimators."""

__all__: list[str] = []
