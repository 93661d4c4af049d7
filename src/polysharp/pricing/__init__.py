"""Correlations with all monomials, none of them formed."""
