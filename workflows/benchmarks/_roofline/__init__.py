"""Hot loops and what bounds them, for the program ``roofline``."""
