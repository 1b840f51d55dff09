"""Many labels by the method of moments."""
