"""Every hot loop beside what this machine can do: loops, limits, clock and the fits in which the loops stand."""
