"""A model whose terms one ridge chose and whose coefficients another one gave: what is proved."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support import RidgeRefit, terms_proof

from polysharp import Proof, SparsePolynomialRegressor, load_model, save_model, verify
from polysharp.cli import main


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 4)), columns=list("abcd"))
    y = (X["a"] * X["b"] + X["c"] + 0.3 * rng.standard_normal(60)).rename("y")
    X.assign(y=y).to_csv("t.csv", index=False)
    X.assign(y=y[::-1].to_numpy()).to_csv("u.csv", index=False)
    return X, y


@pytest.fixture
def model(table):
    """A model proved at gamma 0.01 whose coefficients are larger."""
    model = SparsePolynomialRegressor(2, 3, gamma=0.01).fit(*table)
    known = model.fitted_
    refit = RidgeRefit(10.0, 1.3 * known.solution.coefficients, 0.9)
    formulas = (replace(p, coefficients=1.3 * p.coefficients) for p in known.polynomials)
    solution = replace(known.solution, refit=refit)
    model.fitted_ = replace(known, solution=solution, polynomials=tuple(formulas))
    return model


def test_print_and_model_files_keep_both_ridges(model):
    words = str(model.solution_).splitlines()
    assert words[0] == (
        "Proved best: no other formula with at most 3 terms has a smaller penalised error at "
        "gamma 0.01; coefficients were then estimated with gamma 10"
    )
    save_model(model, "m.json")
    again = load_model("m.json").solution_
    assert str(again) == str(model.solution_)
    assert again.refit.coefficients.tolist() == model.solution_.refit.coefficients.tolist()
    assert again.shown is again.refit.coefficients


def test_the_statement_says_what_the_proof_is_about(model, table):
    proof = terms_proof(model.solution_.proof, model)
    assert "estimated afterwards with gamma 10.0" in str(proof.statement)
    proof.save("p")
    again = Proof.load("p")
    assert again.statement.refit_gamma == 10.0
    assert again.statement.gamma == 0.01
    verdict = verify(again, *table)
    assert verdict, verdict.reason
    assert verdict.objective == pytest.approx(model.solution_.objective, rel=1e-9)
    for none in (-1.0, 0.0, np.nan, np.inf):
        forged = replace(again, statement=replace(again.statement, refit_gamma=none))
        assert not verify(forged, *table)


def test_the_command_verifies_the_terms(model, capsys):
    save_model(model, "m.json")
    assert main(["verify", "m.json", "t.csv"]) == 0
    out = capsys.readouterr().out
    assert "The terms were chosen at gamma 0.01, and the proof" in out
    assert "estimated with gamma 10" in out
    assert main(["verify", "m.json", "u.csv", "-q"]) == 4


def test_other_terms_than_the_best_are_found(model, capsys):
    """A file whose formula has been given another term keeps no certificate."""
    known = model.fitted_
    p = known.polynomials[0]
    changed = replace(p, monomials=((3,), *p.monomials[1:]))
    model.fitted_ = replace(known, polynomials=(changed,))
    save_model(model, "m.json")
    assert main(["verify", "m.json", "t.csv", "-q"]) == 4
    assert "more than stated" in capsys.readouterr().out
