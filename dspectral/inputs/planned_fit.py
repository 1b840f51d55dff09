"""A plan of a fit before it begins, for every estimator."""

from typing import Any

from dspectral import engine


class PlannedFitMixin:
    """Say beforehand what ``fit`` will take."""

    def plan(
        self,
        X: Any,
        y: Any = None,
        *,
        workers: int | None = None,
        memory_limit: str | float | None = None,
        **fit_params: Any,
    ) -> "engine.RunPlan":
        """Say what ``fit(X, y)`` will take: passes, tasks, bytes, memory and time.

        Parameters
        ----------
        X : object
            Data as ``fit`` takes it.
        y : object, optional
            Target as ``fit`` takes it.
        workers : int, optional
            Number of worker processes that will be started, with one thread each. By default the workers of the client
            in force, or the threads of this process.
        memory_limit : str or float, optional
            Bytes that each of them may have, such as ``"2 GB"``. By default what the workers were given; for threads
            ``dspectral.worker-memory`` of Dask's configuration, or what the machine has left.
        **fit_params : object
            More of what ``fit`` will be given.

        Returns
        -------
        RunPlan
            The plan, found by fits of a few blocks in a process of its own; see :func:`dspectral.plan`.
        """
        given = (X,) if y is None else (X, y)
        return engine.plan(self, *given, workers=workers, memory_limit=memory_limit, **fit_params)
