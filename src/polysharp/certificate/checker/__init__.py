"""The checker: a proof verified with no code of the search."""
