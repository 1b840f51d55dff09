"""Numerical linear algebra on arrays in memory."""
