"""What a search proved: solution, statement, proof and its checker."""
