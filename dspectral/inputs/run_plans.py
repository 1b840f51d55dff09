"""Run plans as a method of estimators."""

from typing import Any

from dspectral import engine
from dspectral.run_plan import RunPlan


class RunPlanMixin:
    """Mixin of the method ``plan``."""

    def plan(
        self,
        X: Any,
        y: Any = None,
        *,
        workers: int | None = None,
        memory_limit: str | float | None = None,
        **fit_params: Any,
    ) -> RunPlan:
        """Return the run plan of ``fit(X, y)``: passes, tasks, bytes, memory and approximate time.

        Parameters
        ----------
        X : object
            Data as ``fit`` takes it.
        y : object, optional
            Target as ``fit`` takes it.
        workers : int, optional
            Number of worker processes, as for :func:`dspectral.plan`.
        memory_limit : str or float, optional
            Memory limit of each worker, such as ``"2 GB"``.
        **fit_params : object
            Further arguments of ``fit``.

        Returns
        -------
        RunPlan
            Run plan, see :func:`dspectral.plan`.
        """
        arguments = (X,) if y is None else (X, y)
        return engine.plan(self, *arguments, workers=workers, memory_limit=memory_limit, **fit_params)
