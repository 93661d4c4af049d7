"""Draw the pictures that show a browser: the report, for README and guide, and the page of serve.

    python docs/make_pictures.py

Needs Playwright and a Chromium, as the tests of the report do: the one that the environment
variable ``POLYSHARP_CHROMIUM`` names, or one on the PATH.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import polysharp
from polysharp.datasets import cycling

PICTURES = Path(__file__).parent / "_static"
WIDTH, HEIGHT = 760, 1040
HERO = 800  # height of the README's picture: the report down to the end of the formula's box


def rides() -> pd.DataFrame:
    """Return the table of the demo, the target last."""
    data = cycling()
    return pd.DataFrame(data.X, columns=data.input_names).assign(power=data.y)


def write_report(file: Path) -> None:
    """Write the report that the guide shows."""
    table = rides()
    y = table.pop("power")
    settings = {"degree": 3, "max_inputs": 5, "gamma": 10.0}
    model = polysharp.SparsePolynomialRegressor(max_terms=5, **settings).fit(table, y)
    sizes = polysharp.path(table, y, max_terms=8, cv=5, random_state=0, **settings)
    polysharp.report.write_report(
        model, table, y, file, path=sizes, title="The power a cargo bicycle needs"
    )


def report(browser: Browser, folder: Path) -> list[bytes]:
    """Return the top of the report, light, and its response curves, dark."""
    file = folder / "report.html"
    write_report(file)
    pictures = []
    for scheme in ("light", "dark"):
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, offline=True
        )
        page.goto(file.as_uri())
        if scheme == "dark":
            page.locator("#response").scroll_into_view_if_needed()
            page.evaluate("scrollTo(0, document.querySelector('#response').offsetTop - 24)")
            page.wait_for_timeout(800)  # the page scrolls smoothly
        pictures.append(page.screenshot())
    return pictures


def serve(browser: Browser, folder: Path) -> list[bytes]:
    """Return the page of ``polysharp serve``, light with a table and dark with its formula."""
    table = folder / "rides.csv"
    rides().to_csv(table, index=False)
    command = [sys.executable, "-m", "polysharp", "serve", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address, pictures = server.stdout.readline().split()[-1], []
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme
                )
                page.goto(address)
                if scheme == "light":
                    page.set_input_files("#file", table)
                    page.locator("#target").select_option(label="power")
                    pictures.append(page.screenshot())
                    page.locator("#go").click()
                page.locator("#result").wait_for(timeout=600_000)
            page.frame_locator("#report").locator("h1").wait_for()
            page.evaluate("scrollTo(0, document.querySelector('#search').offsetTop - 24)")
            page.wait_for_timeout(800)
            return [*pictures, page.screenshot()]
        finally:
            server.terminate()


def save(pictures: list[bytes], name: str, height: int = HEIGHT) -> None:
    """Join pictures, with few enough colours to be small."""
    joined = Image.new("RGB", (len(pictures) * WIDTH, height))
    for a, part in enumerate(pictures):
        joined.paste(Image.open(io.BytesIO(part)), (a * WIDTH, 0))
    joined.quantize(128).save(PICTURES / name, optimize=True)


def main() -> None:
    """Draw them."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("POLYSHARP_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        drawn = report(browser, Path(folder))
        save(drawn, "report.png")
        save(drawn, "hero.png", HERO)
        save(serve(browser, Path(folder)), "serve.png")
        browser.close()


if __name__ == "__main__":
    main()
