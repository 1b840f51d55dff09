"""A page about fits on Dask's dashboard, at ``/spectral``.

It shows, for each fit that runs on the cluster, its passes, the levels of the merge tree, the rate against that of
earlier passes, the certificate, the memory of the workers against :func:`dspectral.estimate_memory`, and what was
lost and computed again. :func:`show_dashboard` adds it to a scheduler that runs;
``dask scheduler --preload dspectral.dashboard`` starts one with it. Fits tell it what they do where
``dspectral.dashboard`` is true in Dask's configuration, as ``DASK_DSPECTRAL__DASHBOARD=true`` makes it.
"""

from dspectral.dashboard.installation import add_page, dask_setup, show_dashboard

__all__ = ["add_page", "dask_setup", "show_dashboard"]
