"""The estimators, and what is done with fitted ones."""
