"""A page about fits on Dask's dashboard, at ``/spectral``.

The page shows, for each fit on the cluster, its passes and what its client computes between them, the merge tree, the
speed and the time left, the certificate, the memory of the workers against their limits, and repeated tasks.
:func:`show_dashboard` adds it to a running scheduler; ``dask scheduler --preload dspectral.dashboard`` starts one with
it. Fits send events if ``dspectral.dashboard`` is true in Dask's configuration, for instance by
``DASK_DSPECTRAL__DASHBOARD=true``.
"""

from dspectral.dashboard.installation import add_page, dask_setup, show_dashboard

__all__ = ["add_page", "dask_setup", "show_dashboard"]
