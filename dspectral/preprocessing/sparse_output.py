"""Transformers to sparse rows share a base class."""

from typing import Any, Self


class SparseOutput:
    """Answer ``set_output`` of transformers whose rows stay sparse: it is for dense results in memory.

    A data frame would hold one column object for each of some 262,144 columns, and rows that are read lazily would be
    computed. The call is accepted, since a Pipeline hands its own to every step; dense results of later steps
    become frames.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep scikit-learn from wrapping what ``transform`` returns."""
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)  # type: ignore[call-arg]

    def set_output(self, *, transform: str | None = None) -> Self:
        """Accept a container, which is for dense results in memory: the rows of this transformer stay sparse.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            Container that is asked for; it changes nothing here.

        Returns
        -------
        self
            The transformer itself.
        """
        return self
