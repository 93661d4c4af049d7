"""Fits over all inputs: columns generated on demand."""
