"""The formula in the user's names and units."""
