"""A report says what the model says, loads nothing, and shows user text as text."""

import re
import warnings
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from support import (
    Peer,
    ReportData,
    assess,
    at_most,
    compare_peers,
    number,
    percent,
    region_above,
    rounded_up,
    verdict,
)

from polysharp import (
    Path,
    PathPoint,
    Polynomial,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    path,
    rivals,
    save_model,
    stability,
)
from polysharp.datasets import cycling
from polysharp.errors import InputError
from polysharp.report import render_report, write_report

SCRIPT = "<script>alert(1)</script>"
NASTY = (SCRIPT, 'a & "b"', "'><img src=x onerror=alert(2)>", "tab\there\x00\x1b")
VOID = {"meta"}
SECTIONS = ("accuracy", "response", "terms", "certificate", "size", "inputs", "data", "reproduce")


class Page(HTMLParser):
    """Elements, attributes and text of a page; complains about tags that do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def names(self):
        return {tag for tag, _ in self.elements}

    def of(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def rides():
    data = cycling(n=120)
    X = pd.DataFrame(data.X[:, :5], columns=data.input_names[:5])
    return X, pd.Series(data.y, name="power")


@pytest.fixture(scope="module")
def model(rides):
    return SparsePolynomialRegressor(3, 5, max_inputs=4, gamma=1.0).fit(*rides)


def path_of(model, budgets=(4,), *, judged=True):
    points = [
        PathPoint(
            size,
            k,
            model.polynomial_,
            model.solution_,
            10.0 / size,
            *((11.0 / size, 0.5) if judged else ()),
        )
        for k in budgets
        for size in range(1, 8)
    ]
    return Path(tuple(points), 3, 1.0, False, 5)


def test_everything_a_reader_needs_is_there(model, rides, tmp_path):
    X, y = rides
    file = tmp_path / "report.html"
    write_report(model, X, y, file, path=path_of(model), title="Rides", command="polysharp fit x")
    page = Page(file.read_text(encoding="utf-8"))
    polynomial, solution = model.polynomial_, model.solution_
    for text in (
        polynomial.formula(4),
        polynomial.to_latex(),
        f"{solution.objective:.6g}",
        f"{solution.bound:.6g}",
        "What this does not say",
        "polysharp fit x",
        "max_inputs=4,",
        "Proved best",
        "validation error",
    ):
        assert " ".join(text.split()) in page.text
    assert polynomial.to_python() in page.texts
    assert page.texts.count("Rides") == 2  # title and heading
    headings = [attrs["id"] for attrs in page.of("h2")]
    assert headings == [f"{name}-heading" for name in SECTIONS]
    assert [attrs["href"] for attrs in page.of("a")] == [f"#{name}" for name in SECTIONS]


def test_numbers_are_those_of_the_rows(model, rides):
    X, y = rides
    weights = np.linspace(0.0, 2.0, len(y))
    report = ReportData.of(model, X, y, sample_weight=weights)
    residuals = y - model.predict(X)
    mean = np.average(y, weights=weights)
    assert report.rows.rmse == pytest.approx(np.sqrt(np.average(residuals**2, weights=weights)))
    explained = np.average(residuals**2, weights=weights)
    assert report.rows.r2 == pytest.approx(
        1 - explained / np.average((y - mean) ** 2, weights=weights)
    )
    assert report.n == len(y) - 1  # the row of weight zero is no row


def test_every_figure_has_words_and_is_well_formed(model, rides):
    text = render_report(model, *rides, path=path_of(model))
    charts = [svg for svg in re.findall(r"<svg.*?</svg>", text, re.S) if 'class="chart"' in svg]
    # The course of a search that took less than a second is not drawn.
    assert len(charts) == 1 + 3 + len(model.polynomial_.inputs) + 3
    for svg in charts:
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert root.find("title").text
        assert root.find("desc").text
        for mark in root.iter("path"):
            assert "nan" not in mark.get("d")
            assert "inf" not in mark.get("d")


def test_a_real_path_and_a_real_stability(rides):
    X, y = rides
    sizes = path(X, y, degree=2, max_terms=4, gamma=1.0, cv=3, random_state=0)
    model = SparsePolynomialRegressor(2, 3, gamma=1.0).fit(X, y)
    resamples = stability(model, X, y, n_resamples=10, random_state=0)
    page = Page(render_report(model, X, y, path=sizes, stability=resamples))
    for point in sizes:
        assert f"{point.validation_error:.4g} ± {point.validation_std_error:.2g}" in page.texts
        assert point.polynomial.formula(4) in page.texts
    assert "10 bootstrap resamples of the rows" in page.text
    for monomial in model.polynomial_.monomials:
        assert f"{100 * resamples.share_of(monomial):.0f}\N{NO-BREAK SPACE}%" in page.texts
    low, high = (number(end, 4) for end in resamples.intervals()[0])
    assert f"{low} to {high}" in page.texts
    assert "Where it has no slope" in page.texts
    assert "prediction, whatever the distribution" not in page.text
    model.calibrate(X, y, cv=5)
    page = Page(render_report(model, X, y))
    assert "prediction, whatever the distribution of the errors (conformal intervals, from 5" in (
        page.text
    )


@pytest.mark.parametrize("center", [False, True])
def test_rivals_are_drawn_as_terms_by_formulas(rides, center):
    X, y = rides
    model = SparsePolynomialRegressor(2, 3, gamma=1.0, center=center).fit(X, y)
    found = rivals(model, X, y, within=1.0)
    assert found.count > 3
    page = Page(render_report(model, X, y, rivals=found))
    assert found.claim in page.text
    cells = [a["d"] for a in page.of("path") if a.get("class", "").startswith("cells ")]
    drawn = min(found.count, 50) * 3
    assert sum(d.count("z") for d in cells) == drawn
    alone = Page(render_report(model, X, y, rivals=rivals(model, X, y, within=0.0)))
    assert "1 formula of 3 terms" in alone.text


def test_sizes_without_a_validation_error_are_left_out(model, rides):
    points = list(path_of(model).points)
    points[5] = replace(points[5], validation_error=None, validation_std_error=None)
    text = render_report(model, *rides, path=Path(tuple(points), 3, 1.0, False, 5))
    assert "nan" not in text.replace("nance", "")
    titles = [t for t in Page(text).texts if "validation:" in t]
    assert len(titles) == 6


def test_held_out_rows_and_other_methods_stand_beside_the_fit(model, rides):
    X, y = rides
    others = cycling(n=40, random_state=1)
    new = (pd.DataFrame(others.X[:, :5], columns=X.columns), others.y)
    found = compare_peers(X, y, cv=3)
    page = Page(render_report(model, X, y, held_out=new, peers=found))
    error = np.sqrt(np.mean((others.y - model.predict(new[0])) ** 2))
    assert f"{error:.3g}" in page.texts
    assert "On 40 held-out rows, which the fit has not seen" in page.text
    for peer in found:
        assert peer.name in page.texts
        assert f"{peer.error:.4g} ± {peer.std_error:.2g}" in page.texts


def test_peers_are_judged_on_rows_they_have_not_seen(rides):
    X, y = rides
    mean, linear, _ = compare_peers(X, y, cv=4, seed=7)
    errors = []
    for train, test in KFold(4, shuffle=True, random_state=7).split(X):
        fitted = LinearRegression().fit(X.iloc[train], y.iloc[train]).predict(X.iloc[test])
        errors.append(np.sqrt(np.mean((y.iloc[test] - fitted) ** 2)))
    assert linear.error == pytest.approx(np.mean(errors))
    assert linear.std_error == pytest.approx(np.std(errors, ddof=1) / 2)
    assert mean.error == pytest.approx(y.std(), rel=0.05)


def test_the_chosen_size_is_in_the_table_however_many_there_are(model, rides):
    points = [replace(path_of(model).points[0], max_terms=size) for size in range(1, 40)]
    chosen = replace(points[4], max_terms=5)
    sizes = Path((*points[:4], chosen, *points[5:]), 3, 1.0, False, 5)
    text = render_report(model, *rides, path=sizes)
    near = text[text.index("near the model") :]
    assert "<b>5 (this model)</b>" in near[: near.index("</table>")]


def test_a_long_formula_is_set_in_columns(rides):
    X, y = rides
    model = SparsePolynomialRegressor(3, 20, gamma=1.0, engine="local-search").fit(X, y)
    page = Page(render_report(model, X, y))
    assert {"class": "formula long"} in page.of("p")


def test_words_in_r2_are_those_of_the_certificate_and_only_for_its_rows(model, rides):
    X, y = rides
    limit = rounded_up(model.solution_.r2_ceiling)
    assert f"no candidate has more than {limit} unless" in Page(render_report(model, X, y)).text
    assert "no candidate has more" not in Page(render_report(model, X[:60], y[:60])).text


def test_nothing_is_loaded_and_nothing_runs(model, rides):
    text = render_report(model, *rides, path=path_of(model))
    page = Page(text)
    assert not page.names() & {"script", "link", "iframe", "img", "object", "embed", "base", "form"}
    for _, attrs in page.elements:
        assert not set(attrs) & {"src", "srcset", "action", "xlink:href", "background"}
        assert not [name for name in attrs if name.startswith("on")]
        assert attrs.get("href", "#").startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert "://" not in text
    policy = next(m["content"] for m in page.of("meta") if m.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_user_text_stays_text_everywhere():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1.0, 2.0, (60, 4)), columns=list(NASTY))
    y = pd.Series(X.iloc[:, 0] * X.iloc[:, 1] + X.iloc[:, 2] * X.iloc[:, 3], name=f"y{SCRIPT}")
    model = SparsePolynomialRegressor(2, 2, include_inputs=list(NASTY), gamma=1e4).fit(X, y)
    text = render_report(
        model, X, y, path=path_of(model), title=f"title {SCRIPT}", command=f"run {SCRIPT} \udc80"
    )
    text.encode("utf-8")
    page = Page(text)
    assert not page.names() & {"script", "img"}
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    for name in (SCRIPT, 'a & "b"', "'><img src=x onerror=alert(2)>"):
        assert name in page.texts
    assert f"title {SCRIPT}" in page.texts
    assert f"run {SCRIPT} \N{REPLACEMENT CHARACTER}" in page.texts
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(svg)


def test_without_path_and_without_names():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 3))
    y = X[:, 0] - X[:, 1] ** 2
    page = Page(render_report(SparsePolynomialRegressor(2, 2, gamma=1e3).fit(X, y), X, y))
    assert "A formula for y" in page.texts
    assert "#size" not in {attrs["href"] for attrs in page.of("a")}
    assert "No term joins two inputs" in page.text


def test_centred_models_show_what_is_subtracted(rides):
    X, y = rides
    model = SparsePolynomialRegressor(2, 3, center=True).fit(X, y)
    page = Page(render_report(model, X, y))
    assert "the means are subtracted first" in page.text
    assert f"\N{MINUS SIGN} {model.polynomial_.shifts[0]:.6g})" in page.text
    assert model.polynomial_.formula(4) in page.texts


def test_one_input():
    X = np.linspace(-1.0, 2.0, 30)[:, None]
    model = SparsePolynomialRegressor(3, 2, gamma=1e4).fit(X, X[:, 0] ** 3 - X[:, 0])
    page = Page(render_report(model, X, X[:, 0] ** 3 - X[:, 0]))
    assert "the one input" in page.text


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_constant(fit_intercept):
    X, y = np.random.default_rng(0).standard_normal((20, 2)), np.full(20, 4.0)
    model = SparsePolynomialRegressor(1, 1, gamma=1e6, fit_intercept=fit_intercept).fit(X, y)
    page = Page(render_report(model, X, y))
    assert "The formula is a constant" in page.text
    assert "#response" not in {attrs["href"] for attrs in page.of("a")}


def test_constant_columns_and_huge_units():
    rng = np.random.default_rng(3)
    X = np.c_[rng.uniform(1e9, 2e9, 30), np.full(30, 7.0), rng.uniform(1e-9, 2e-9, 30)]
    y = 3e12 * X[:, 2] * X[:, 0] * 7.0
    text = render_report(SparsePolynomialRegressor(3, 1, gamma=1e6).fit(X, y), X, y)
    assert "nan" not in text.replace("nance", "")
    Page(text)


def test_a_search_over_budgets(rides):
    X, y = rides
    search = SparsePolynomialRegressorCV(
        degree=(1, 2), max_terms=4, max_inputs=(2, None), cv=3, rule="best", random_state=0
    ).fit(X, y)
    page = Page(render_report(search, X, y))
    assert "#size" in {attrs["href"] for attrs in page.of("a")}
    assert "without the search" in page.text
    assert f"degree={search.best_params_['degree']}," in page.text
    shown = f"{search.best_params_['max_terms']} term"
    assert f"with at most {shown}" in page.text


def test_a_model_from_a_file_is_reported_alike(model, rides, tmp_path):
    save_model(model, tmp_path / "model.json")
    page = Page(render_report(load_model(tmp_path / "model.json"), *rides))
    assert "Proved best" in page.texts
    assert "best model so far" not in page.texts  # the course of the search is not in the file


def test_several_budgets_of_inputs_and_no_validation(model, rides):
    page = Page(render_report(model, *rides, path=path_of(model, (2, 4), judged=False)))
    assert "they say nothing about new rows" in page.text
    assert {"2 inputs", "4 inputs"} <= set(page.texts)


def facts_of(model, rides):
    return ReportData.of(model, *rides)


def statement(model, rides):
    """Return what the report says was proved."""
    text = Page(render_report(model, *rides)).text
    return text.partition("What was proved")[2].partition("What this does not say")[0]


def test_words_say_neither_more_nor_less_than_the_certificate(model, rides):
    words = statement(model, rides)
    assert verdict(facts_of(model, rides)) == "Proved best"
    assert "all polynomials of degree at most 3 with at most 5 terms in at most 4" in words
    assert "taken from all 5 inputs of the table" in words
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        guess = SparsePolynomialRegressor(3, 5, engine="local-search").fit(*rides)
    words = statement(guess, rides)
    assert verdict(facts_of(guess, rides)).startswith("Not proved best")
    assert "proved best" not in words.replace("not a proved best", "")
    assert "no single swap improves the model" in words


def test_words_on_a_triage_name_what_was_not_examined(rides):
    model = SparsePolynomialRegressor(2, 2, n_candidates=3, gamma=1.0).fit(*rides)
    report = facts_of(model, rides)
    assert verdict(report) == "Proved best of the kept inputs"
    words = statement(model, rides)
    assert "3 inputs that a ranking kept of 5" in words
    assert "were not examined" in words


def test_a_loose_tolerance_is_not_called_best(model, rides):
    """With gap_tol=0.9 nearly every search counts as done; the badge names what was proved."""
    loose = copy(model)
    half = replace(model.solution_, bound=0.5 * model.solution_.objective, gap_tol=0.9)
    loose.fitted_ = replace(model.fitted_, solution=half)
    report = facts_of(loose, rides)
    assert verdict(report) == "Proved within 50\N{NO-BREAK SPACE}% of the best"
    assert "within the tolerance of 90" in statement(loose, rides)
    assert "proved best" not in statement(loose, rides)


@pytest.mark.parametrize("change", [{"degree": 2}, {"gamma": 2.0}, {"center": True}])
def test_a_path_with_other_settings_lends_the_model_no_error(model, rides, change):
    curve = path_of(model)
    assert "The dotted line marks" in Page(render_report(model, *rides, path=curve)).text
    page = Page(render_report(model, *rides, path=replace(curve, **change)))
    assert "The dotted line marks" not in page.text
    assert "rows not seen" not in page.text  # the note under the tile


@pytest.mark.parametrize("bound", [36.16988769, 0.25, 1e-7 / 3, 123456789.0, 0.0])
def test_bounds_are_never_rounded_up(bound):
    value = float(at_most(bound).replace("\N{MINUS SIGN}", "-"))
    assert bound * (1 - 1e-5) <= value <= bound


@pytest.mark.parametrize("share", [0.0123456, 1.001e-4, 0.9901, 2e-6, 0.37])
def test_percentages_are_never_rounded_down(share):
    value = float(percent(share).rstrip("%\xa0"))
    assert 100 * share <= value <= 110 * share


def area(path):
    """Return the area of the polygons of a path, by the shoelace formula."""
    total = 0.0
    for polygon in path.split("Z")[:-1]:
        points = np.array([p.split() for p in polygon[1:].split("L")], dtype=float)
        after = np.roll(points, -1, axis=0)
        total += 0.5 * np.sum(points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0])
    return total


@pytest.mark.parametrize("level", [0.1, 0.25, 0.61, 1.0])
def test_contours_of_a_plane_are_exact_on_any_grid(level):
    x, y = np.linspace(0.0, 100.0, 4), np.linspace(0.0, 200.0, 5)
    z = (x[None, :] + y[:, None] / 2) / 100.0
    assert area(region_above(z, level, x, y)) == pytest.approx(
        20_000 * (1 - level**2 / 2), rel=1e-3
    )


@pytest.mark.parametrize("level", [-0.7, 0.0, 0.3, 0.95])
def test_contours_enclose_the_area_above_a_level(level):
    def z(x, y):
        return np.sin(4 * x)[None, :] * np.cos(3 * y)[:, None]

    x, y = np.linspace(0.0, 1.0, 61), np.linspace(0.0, 2.0, 81)
    share = np.mean(z(np.linspace(0.0, 1.0, 1201), np.linspace(0.0, 2.0, 1601)) >= level)
    assert area(region_above(z(x, y), level, x, y)) == pytest.approx(2.0 * share, abs=0.01)


def test_rows_that_do_not_fit_the_model_are_refused(model, rides):
    X, y = rides
    with pytest.raises(InputError, match="y must have one finite number per row"):
        render_report(model, X, y[:-1])
    with pytest.raises(InputError, match="sample_weight must be >= 0"):
        render_report(model, X, y, sample_weight=np.zeros(len(y)))


CURVED = Polynomial(((0, 1),), np.ones(1), 0.0, ("a", "b", "c"))
LINE = Polynomial(((0,), (2,)), np.ones(2), 0.0, ("a", "b", "c"))


def others(mean, linear, boosting):
    errors = {"the mean": mean, "linear regression": linear, "boosting": boosting}
    return [Peer(name, error, 0.1) for name, error in errors.items()]


@pytest.mark.parametrize(
    ("polynomial", "error", "peers", "grade", "badge"),
    [
        (CURVED, 1.0, (5.0, 3.0, 2.0), "good", "Better than boosting"),
        (CURVED, 1.0, (5.0, 3.0, 1.05), "good", "As good as boosting"),
        (CURVED, 1.0, (5.0, 3.0, 0.5), "good", "Better than linear regression"),
        (CURVED, 1.0, (5.0, 1.05, 0.5), "open", "No better than a straight line"),
        (CURVED, 1.0, (5.0, 0.5, 2.0), "open", "Linear regression predicts better"),
        (LINE, 1.0, (5.0, 1.05, 2.0), "good", "As good as linear regression"),
        (LINE, 1.0, (5.0, 0.5, 2.0), "open", "Linear regression predicts better"),
        (CURVED, 1.0, (1.05, 3.0, 2.0), "open", "Predicts no better than the mean"),
    ],
)
def test_the_assessment_is_what_the_errors_say(polynomial, error, peers, grade, badge):
    found = assess(polynomial, (error, 0.1), others(*peers))
    assert (found.grade, found.badge) == (grade, badge)
    assert f"error {error:.3g} on rows not seen" in found.sentence


def test_held_out_rows_come_before_all_folds():
    rows = SimpleNamespace(n=20, r2=-98.0)
    found = assess(CURVED, (1.0, 0.1), others(5.0, 3.0, 2.0), rows)
    assert (found.grade, found.badge) == ("open", "Fails on held-out rows")
    assert "R2 -98" in found.sentence
    assert assess(CURVED, None, ()) is None
    assert assess(CURVED, None, (), SimpleNamespace(n=20, r2=0.9)) is None
