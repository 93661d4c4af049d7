"""Draw the picture of the report in the guide, light and dark side by side.

    python docs/make_report_picture.py

Needs Playwright and a Chromium, as the tests of the report do: the one that the environment
variable ``POLYSHARP_CHROMIUM`` names, or one on the PATH.
"""

import io
import os
import shutil
import tempfile
from pathlib import Path

import pandas as pd
from PIL import Image
from playwright.sync_api import sync_playwright

import polysharp
from polysharp.datasets import cycling

PICTURE = Path(__file__).parent / "_static" / "report.png"
WIDTH, HEIGHT = 760, 1040


def write(file: Path) -> None:
    """Write the report that the guide shows."""
    rides = cycling()
    X, y = pd.DataFrame(rides.X, columns=rides.input_names), pd.Series(rides.y, name="power")
    settings = {"degree": 3, "max_inputs": 4, "gamma": 1.0}
    model = polysharp.SparsePolynomialRegressor(max_terms=5, **settings).fit(X, y)
    sizes = polysharp.path(X, y, max_terms=8, cv=5, random_state=0, **settings)
    polysharp.report.write_report(
        model, X, y, file, path=sizes, title="The power a cargo bicycle needs"
    )


def photograph(file: Path, scheme: str) -> bytes:
    """Return the top of the report and its response curves as seen in one colour scheme."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("POLYSHARP_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, offline=True
        )
        page.goto(file.as_uri())
        if scheme == "dark":
            page.locator("#response").scroll_into_view_if_needed()
            page.evaluate("scrollTo(0, document.querySelector('#response').offsetTop - 24)")
            page.wait_for_timeout(800)  # the page scrolls smoothly
        picture = page.screenshot()
        browser.close()
    return picture


def main() -> None:
    """Join both pictures, with few enough colours to be small."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        write(file)
        parts = [photograph(file, scheme) for scheme in ("light", "dark")]
    joined = Image.new("RGB", (2 * WIDTH, HEIGHT))
    for a, part in enumerate(parts):
        joined.paste(Image.open(io.BytesIO(part)), (a * WIDTH, 0))
    joined.quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
