"""The paper's numbers: every table of its numerical section, and what its text says of figures.

Gurobi 6.5, one Xeon E5-2690 at 2.9 GHz, gamma not stated.  The figures themselves (phase
transition, path) are not in the text; only what the text says about them is here.
"""

from __future__ import annotations

TIME_LIMIT = 120.0  # seconds of Algorithm 2, section "Phase Transitions"
N0 = 600  # "a phase transition at around n0 = 600 data samples"

# Table tab:cuts: cutting planes by sample size n, mean of 20 data sets.
CUTS = {
    **{300: ">300", 400: ">300", 500: "298", 600: "200"},
    **{700: "70", 800: "59", 900: "25", 1000: "31"},
}

# Table tab:heuristic: average size p' that the ranking needs, by p and n.
RANKING = {
    200: {2000: 72, 4000: 41, 6000: 36, 8000: 54, 10_000: 27},
    400: {2000: 117, 4000: 109, 6000: 75, 8000: 80, 10_000: 62},
    600: {2000: 222, 4000: 166, 6000: 128, 8000: 68, 10_000: 104},
    800: {2000: 361, 4000: 230, 6000: 96, 8000: 95, 10_000: 102},
    1000: {2000: 286, 4000: 264, 6000: 142, 8000: 103, 10_000: 78},
}

# Table table:datasets: test errors TE of ridge regression (RR), polynomial kernel regression
# (SVM), polynomial Lasso (PL) and exact regression (CIO).
TEST_ERRORS = {
    "airfoil": {"RR": 4.62, "SVM": 4.04, "PL": 3.61, "CIO": 3.53},
    "concrete": {"RR": 10.2, "SVM": 6.00, "PL": 6.11, "CIO": 6.27},
    "energy I": {"RR": 2.79, "SVM": 2.40, "PL": 2.52, "CIO": 2.37},
    "energy II": {"RR": 3.12, "SVM": 1.72, "PL": 2.97, "CIO": 2.79},
    "wine red": {"RR": 0.65, "SVM": 0.70, "PL": 0.69, "CIO": 0.63},
    "wine white": {"RR": 0.74, "SVM": 0.72, "PL": 0.70, "CIO": 0.70},
    "music I": {"RR": 16.4, "SVM": 20.3, "PL": 16.5, "CIO": 18.5},
    "music II": {"RR": 44.0, "SVM": 50.4, "PL": 44.8, "CIO": 45.8},
}
# The same table: the sizes chosen by validation.
CHOSEN_SIZES = {
    "airfoil": {"SVM": {"r": 3}, "PL": {"r": 4, "l": 65}, "CIO": {"r": 4, "k": 5, "l": 100}},
    "concrete": {"SVM": {"r": 3}, "PL": {"r": 4, "l": 94}, "CIO": {"r": 3, "k": 8, "l": 100}},
    "energy I": {"SVM": {"r": 4}, "PL": {"r": 4, "l": 49}, "CIO": {"r": 4, "k": 8, "l": 100}},
    "energy II": {"SVM": {"r": 4}, "PL": {"r": 4, "l": 50}, "CIO": {"r": 4, "k": 6, "l": 70}},
    "wine red": {"SVM": {"r": 2}, "PL": {"r": 4, "l": 70}, "CIO": {"r": 3, "k": 7, "l": 95}},
    "wine white": {"SVM": {"r": 2}, "PL": {"r": 3, "l": 95}, "CIO": {"r": 3, "k": 11, "l": 95}},
    "music I": {"SVM": {"r": 2}, "PL": {"r": 2, "l": 30}, "CIO": {"r": 4, "k": 18, "l": 65}},
    "music II": {"SVM": {"r": 2}, "PL": {"r": 2, "l": 37}, "CIO": {"r": 2, "k": 20, "l": 25}},
}
