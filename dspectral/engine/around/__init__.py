"""What surrounds a pass and computes none of it: context, events, checkpoints, memory, clusters, retries, dry runs."""
