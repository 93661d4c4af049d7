"""The report in a real browser: without a network, on a phone, in the dark, on paper."""

import numpy as np
import pandas as pd
import pytest

from polysharp import Path, PathPoint, SparsePolynomialRegressor
from polysharp.datasets import cycling
from polysharp.report import write_report

NAMES = ("<script>alert(1)</script>", 'a & "b"', "x" * 90, "a name of quite some words indeed")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Write a report with a path, names that mean harm and names that are far too long."""
    data = cycling(n=300)
    X = pd.DataFrame(data.X[:, :4], columns=list(NAMES))
    y = pd.Series(data.y, name="power needed")
    model = SparsePolynomialRegressor(3, 5, max_inputs=4, gamma=1.0).fit(X, y)
    points = tuple(
        PathPoint(size, 4, model.polynomial_, model.solution_, 9 / size, 10 / size, 0.3)
        for size in range(1, 30)
    )
    file = tmp_path_factory.mktemp("report") / "report.html"
    write_report(model, X, y, file, path=Path(points, 3, 1.0, False, 5), command="polysharp " * 40)
    return file


@pytest.fixture
def open_page(browser, report):
    """Return a function that opens the report with the network off and watches for trouble."""
    contexts, troubles = [], []

    def visit(width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: troubles.append(request.url))
        page.goto(report.as_uri())
        assert troubles.pop(0) == report.as_uri()
        return page

    yield visit
    for context in contexts:
        context.close()
    assert troubles == []


def colour(page, selector, name="color"):
    """Return a computed colour as three numbers between 0 and 1."""
    text = page.locator(selector).first.evaluate(f"e => getComputedStyle(e)['{name}']")
    return np.array([float(v) for v in text[text.index("(") + 1 : -1].split(",")[:3]]) / 255


def contrast(one, other):
    """Return the contrast ratio of the WCAG."""
    linear = [np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in (one, other)]
    low, high = sorted(float(c @ [0.2126, 0.7152, 0.0722]) for c in linear)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_sideways(open_page, width):
    page = open_page(width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # What scrolls by itself may be wider inside; nothing else may reach beyond the page.
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('main *, header *, footer *')]
            .filter(e => !e.closest('.scroll') && !e.closest('.unseen'))
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert beyond == []


@pytest.mark.parametrize("width", [390, 1200])
def test_no_number_is_cut(open_page, width):
    """Every number beside a bar ends within its table, percent sign and all."""
    cut = open_page(width).evaluate(
        """() => [...document.querySelectorAll('.ranked .value')]
            .filter(e => e.getBoundingClientRect().right > e.closest('table').parentElement
                          .getBoundingClientRect().right + 0.5 || e.scrollWidth > e.clientWidth)
            .map(e => e.textContent)"""
    )
    assert cut == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_either_scheme(open_page, scheme):
    page = open_page(scheme=scheme)
    paper = colour(page, "body", "background-color")
    assert (paper.mean() < 0.5) == (scheme == "dark")
    for selector in ("body", "h1", "nav a", ".quiet", "figcaption", "thead th", "summary"):
        assert contrast(colour(page, selector), paper) >= 4.5
    badge = colour(page, ".badge", "background-color")
    assert contrast(colour(page, ".badge"), badge) >= 4.5
    for mark in (".chart .axes text", ".chart .dots", ".chart .bars"):
        assert contrast(colour(page, mark, "fill"), paper) >= 3.0
    assert contrast(colour(page, ".chart .line.first", "stroke"), paper) >= 3.0


def test_names_are_shown_as_they_are(open_page):
    page = open_page()
    assert page.locator("script").count() == 0
    formula = page.locator(".formula").inner_text()
    for name in NAMES[:2]:
        assert name in formula


def test_text_of_charts_is_of_readable_size_on_a_phone(open_page):
    page = open_page(390)
    heights = page.evaluate(
        """() => [...document.querySelectorAll('.chart text')]
            .map(e => e.getBBox().height * e.ownerSVGElement.getScreenCTM().a)"""
    )
    assert min(heights) >= 10.0


def test_one_click_selects_a_whole_snippet(open_page):
    page = open_page()
    page.locator(".copies summary").click()
    snippet = page.locator(".copies pre").nth(1)
    snippet.click()
    selected = page.evaluate("getSelection().toString()")
    assert selected.strip() == snippet.inner_text().strip()


def test_on_paper_it_is_light(open_page):
    page = open_page(scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert colour(page, "body", "background-color").tolist() == [1.0, 1.0, 1.0]
    assert page.pdf()[:5] == b"%PDF-"
