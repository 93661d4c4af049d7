"""Edges where parts meet: each test holds the input that once went wrong."""

import io

import numpy as np
import pandas as pd
import pytest
from support import Folds, MemoryRows, Plan, Progress, TermRules, parents_of

from polysharp import (
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    path,
    save_model,
    stability,
)
from polysharp.cli import main
from polysharp.errors import InfeasibleError, InputError, TooLargeError
from polysharp.report import write_report


def data(n=60, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + 2.0 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = data()
    pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv("t.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("gamma", [49.0, 93.0, 1.0 / 49.0, 1e-3, 7.7])
def test_any_gamma_can_be_saved(tmp_path, gamma):
    """1 / (1 / 49) is not 49."""
    X, y = data()
    model = SparsePolynomialRegressor(2, 2, gamma=gamma).fit(X, y)
    save_model(model, tmp_path / "m.json")
    np.testing.assert_array_equal(load_model(tmp_path / "m.json").predict(X), model.polynomial_(X))


def test_path_validates_the_inputs_that_it_searched():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    curve = path(X, X.sum(axis=1), degree=1, max_terms=6, n_candidates=2, cv=3, random_state=0)
    last = curve[-1]
    assert last.n_terms == 2
    assert last.validation_error > 0.8 * last.training_error


def test_path_refuses_what_it_cannot_validate_before_the_search(monkeypatch):
    X, y = data(n=40, p=30)
    monkeypatch.setattr("polysharp.estimators.path.certified_sizes", None)  # it must not begin
    with pytest.raises(TooLargeError, match=r"cv must be None, .* for degree=30 and 30 inputs"):
        path(X, y, degree=30, max_terms=3, cv=5, gamma=1.0)


def test_a_required_term_of_a_degree_that_is_not_compared_is_refused():
    X, y = data(p=5)
    search = SparsePolynomialRegressorCV(degree=(1, 2), max_terms=4, include_terms=["x0^3"])
    with pytest.raises(InputError, match="include_terms"):
        search.fit(X, y)


def test_heredity_holds_where_monomials_are_screened():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 5))
    y = X[:, 0] ** 3 * X[:, 2] + X[:, 0] + 0.1 * rng.standard_normal(150)
    parts = [np.arange(a, 150, 3) for a in range(3)]
    rules = TermRules(degree=4, max_terms=6, heredity="strong")
    folds = Folds(MemoryRows(X, y), parts, Plan.k_fold(3), rules)
    moments = folds.moments(False, 40, size=6, progress=Progress())
    assert len(moments.basis) <= 40
    for pool in moments.pools:
        names = {moments.basis.monomials[j] for j in pool}
        assert all(q in names for m in names for q in parents_of(m))


def test_path_without_any_allowed_size_is_refused():
    X, y = data()
    with pytest.raises(InfeasibleError, match="no polynomial within the budgets"):
        path(X, y, degree=2, max_terms=2, heredity="strong", include_terms=["x0 x1"])


def test_a_degree_without_terms_is_not_chosen():
    X, _ = data()
    y = np.random.default_rng(1).standard_normal(len(X))
    search = SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=2, exclude_terms=["x0", "x1", "x2"], rule="one-se", random_state=0
    ).fit(X, y)
    assert search.best_params_["degree"] == 2


def test_a_list_of_auto_is_auto():
    X, y = data()
    search = SparsePolynomialRegressorCV(
        degree=1, max_terms=2, gamma=["auto"], refit=False, random_state=0
    ).fit(X, y)
    assert len({params["gamma"] for params in search.cv_results_["params"]}) > 2


def test_reports_of_arrays_and_of_columns_that_hardly_vary(tmp_path):
    X, y = data()
    X[:, 2] = 0.3
    X[::2, 2] = 0.1 + 0.2
    search = SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=3, gamma=np.array([1.0, 10.0]), time_limit=20, random_state=0
    ).fit(X, y, sample_weight=np.linspace(0.5, 1.5, len(y)))
    write_report(search, X, y, tmp_path / "r.html", sample_weight=np.linspace(0.5, 1.5, len(y)))
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "gamma=[1.0, 10.0]" in page
    assert "sample_weight=weights" in page


def test_stability_of_few_rows_draws_two_of_them_at_least():
    X, y = data(n=3, p=2)
    found = stability(
        SparsePolynomialRegressor(1, 1, engine="enumeration"), X, y, n_resamples=40, random_state=0
    )
    assert found.n_resamples == 40


def test_stability_of_a_search_that_only_compares():
    X, y = data()
    search = SparsePolynomialRegressorCV(degree=1, max_terms=2, refit=False, random_state=0)
    assert stability(search, X, y, n_resamples=3, random_state=0).n_resamples == 3


def test_wide_files_are_read_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"a_rather_long_name_of_a_gene_{i:05d}" for i in range(3000)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((6, 3000)), columns=names)
    frame.to_csv("wide.csv", index=False)
    from support import inner

    read_table = inner("read_table", "cli")

    assert list(read_table("wide.csv").columns) == names


def test_standard_input_has_an_encoding(table, monkeypatch, capsys):
    class Piped:
        buffer = io.BytesIO(b"\xef\xbb\xbf" + (table / "t.csv").read_bytes())

    monkeypatch.setattr("sys.stdin", Piped())
    assert main(["fit", "-", "--target", "y", "--inputs", "a,b", "-l", "1", "--brief"]) == 0
    assert "a" in capsys.readouterr().out


def test_an_interrupt_during_validation_keeps_the_sizes(table, monkeypatch, capsys):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("polysharp.estimators.path.validated_sizes", interrupted)
    options = ["--max-terms", "2", "--size-table", "sizes.csv", "-q"]
    assert main(["fit", "t.csv", "--target", "y", *options]) == 130
    assert len(pd.read_csv("sizes.csv")) >= 2
    assert "by validation" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "t.csv", "-t", "y", "-o", "-"], "--output must name a file"),
        (
            ["fit", "w.csv", "-t", "y", "--weights", "rare", "--holdout", "0.1", "-l", "1"],
            "--holdout must hold out rows of positive weight",
        ),
    ],
)
def test_edges_of_the_command_line(table, capsys, arguments, said):
    frame = pd.read_csv("t.csv")
    rare = np.zeros(len(frame))
    order = np.random.default_rng(0).permutation(len(frame))
    rare[order[10:]] = 1.0  # the seed of the command keeps the first ones aside
    frame.assign(zero=0.0, minus=-1.0, rare=rare).to_csv("w.csv", index=False)
    names = {"zero", "minus", "rare"} - set(arguments)
    if "w.csv" in arguments:
        arguments = [*arguments, "--exclude", ",".join(sorted(names))]
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_reports_of_few_rows(table, capsys):
    frame = pd.read_csv("t.csv")[:3]
    frame.to_csv("few.csv", index=False)
    assert main(["fit", "t.csv", "-t", "y", "-l", "1", "-r", "1", "-o", "m.json", "-q"]) == 0
    assert main(["report", "m.json", "few.csv", "-o", "few.html", "-q"]) == 0
    with pytest.raises(InputError, match="cv must be at most"):
        path(frame[["a"]], frame["y"], degree=1, max_terms=1, cv=5)
    assert (table / "few.html").exists()
