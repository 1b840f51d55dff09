"""What turns a merged summary into parameters: pure functions of small arrays."""
