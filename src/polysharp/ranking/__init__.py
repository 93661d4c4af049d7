"""Algorithm 1: inputs ranked by kernel regression, and the triage that keeps the best."""
