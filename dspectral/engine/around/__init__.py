"""Services around a pass: context, events, checkpoints, memory, clusters, retries, dry runs."""
