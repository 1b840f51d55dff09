"""Finished parts of passes, kept under names made of content, so that a fit that was cut short goes on."""
