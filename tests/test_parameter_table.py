"""One table of parameters: estimators, docstrings, command line and model files say the same."""

from __future__ import annotations

import re

import pytest
from support import (
    BUDGETS,
    FIT,
    LASSO,
    SEARCH,
    TERM_RULES,
    option_help,
    option_names,
    parameters_of,
)

from polysharp import PolynomialLasso, SparsePolynomialRegressor
from polysharp.cli import make_parser

KNOWN = parameters_of(*FIT)


def documented(kind):
    """Return what the docstring says of every parameter: its type and default."""
    section = kind.__doc__.partition("Parameters\n")[2].partition("Attributes\n")[0]
    found = re.findall(r"^ {4}(\w[\w, \\\n]*?) : (.*)$", section, re.MULTILINE)
    return {name.strip(" \\\n"): said for names, said in found for name in names.split(",")}


def test_the_table_has_the_parameters_of_the_estimator_and_their_defaults():
    given = SparsePolynomialRegressor().get_params(deep=False)
    assert set(given) == set(KNOWN)
    assert {name: own.default for name, own in KNOWN.items()} == given


def test_the_lasso_differs_only_as_the_table_says():
    table = parameters_of(*FIT, LASSO)
    for name, default in PolynomialLasso().get_params(deep=False).items():
        assert table[name].default == default, name


@pytest.mark.parametrize("kind", [SparsePolynomialRegressor, PolynomialLasso])
def test_docstrings_name_every_parameter_with_its_default(kind):
    said, given = documented(kind), kind().get_params(deep=False)
    assert set(said) == set(given)
    for name, default in given.items():
        shown = re.search(r"default=(.*)$", said[name])
        assert shown is None or eval(shown[1]) == default, name


def test_every_option_of_the_table_is_an_option_of_fit():
    words = ["fit", "t.csv", "--target", "y"]
    options = vars(make_parser().parse_args(words))
    assert set(option_names().values()) <= set(options)
    for group in (TERM_RULES, SEARCH, BUDGETS):
        assert all("  " in line for line in option_help(group).splitlines())


def test_defaults_obey_their_rules():
    for own in (*KNOWN.values(), *parameters_of(LASSO).values()):
        assert own.rule is None or own.rule.holds(own.default), own.name
