"""Budgets chosen by validation, and the path over sizes."""
