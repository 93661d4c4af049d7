"""The formula outside Python and outside this library.

Every target evaluates the same sum of products,

    intercept + sum_j c_j (x_a - shift_a) (x_b - shift_b) ...,

with every number written so that it reads back as the same float64 and every power as a product,
since not every language has powers of floats.  Names of columns are data from the user's table:
they are quoted, escaped or turned into identifiers, and never become code.
"""
