"""The checker: a proof verified with no code of the search; nothing here is shared with it."""
