"""What objective and solvers share."""
