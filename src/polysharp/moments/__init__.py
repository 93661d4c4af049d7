"""Moments G, q and yy of rows, and the questions engines may ask about G."""
