"""Monomials: the scaled basis, the rules about terms, and terms as users write them."""
