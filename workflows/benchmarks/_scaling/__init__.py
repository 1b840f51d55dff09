"""What the program ``scaling`` times, and the process that it is timed in."""
