"""Opens reports in headless Chromium and uses them as a person would.

usage: check.py CHROMIUM ROBUSTARD FOLDER

FOLDER gets the tables, the pages and a screenshot of each. Fails at the first thing that is not as it should be.
"""

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM, ROBUSTARD, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
PAGE_LIMIT = 6_000_000
#: Most pixels of a page whose details are closed, of 80 columns.
HEIGHT_LIMIT = 4_000
CHARTS = {
    "predicted-actual", "leverage", "coverage", "residuals", "quantiles", "objective", "feature-paths",
}
HOSTILE = {
    "columns": ['"><img src=x onerror=alert(1)>', "</script><script>alert(2)</script>",
                "\u2028</td><b>c</b>"],
    "id": "who",
    "target": "y<svg onload=alert(3)>",
    "cell": "<script>alert(4)</script>",
}


def robustard(*arguments):
    result = subprocess.run([ROBUSTARD, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, f"robustard {arguments}: {result.stderr}"
    return result.stdout


def write_table(name, header, rows):
    path = FOLDER / name
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def linear_rows(random_source, count, columns, wrong_share):
    """y = 3a − 2b + c + noise; a share of the rows is off by 10 to 30."""
    for _ in range(count):
        x = [random_source.gauss(0, 1) for _ in range(columns)]
        y = 3 * x[0] - 2 * x[1] + x[2] + random_source.gauss(0, 1)
        if random_source.random() < wrong_share:
            y += random_source.choice([-1, 1]) * random_source.uniform(10, 30)
        yield [round(value, 4) for value in [*x, y]]


class Watched:
    """A page, with everything that went wrong on it."""

    def __init__(self, browser, path, width=1200, scheme="light"):
        self.path = path
        self.trouble = []
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        self.page = context.new_page()
        self.page.on("console", lambda message: self.trouble.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", self.request)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]", timeout=60_000)

    def request(self, request):
        if not request.url.startswith(("data:", "blob:")) and request.url != self.path.as_uri():
            self.trouble.append(f"request: {request.url}")

    def charts(self):
        """The charts that hold something: a point, a line or an area."""
        return set(
            self.page.evaluate(
                """() => [...document.querySelectorAll(".chart[data-drawn=yes]")]
                    .filter((chart) => chart.querySelector("svg .scatterlayer path"))
                    .map((chart) => chart.dataset.chart)"""
            )
        )

    def column(self, place):
        return self.page.locator(f"#suspicious > tbody > tr:not(.explanation) > td:nth-child({place})").all_inner_texts()

    def open_details(self):
        """Opens everything that is closed, and waits for the charts in it."""
        self.page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")
        self.page.wait_for_function("document.querySelectorAll('.chart:not([data-drawn=yes])').length === 0")

    def check_texts(self):
        """Every chart says what it shows, every control and every cell of a head has a name."""
        nameless = self.page.evaluate(
            """() => [...document.querySelectorAll(".chart")].filter((c) => (c.getAttribute("aria-label") ?? "").length < 10)
                .concat([...document.querySelectorAll("button, summary")].filter((c) => !c.textContent.trim() && !c.title && !c.ariaLabel))
                .map((element) => element.outerHTML)"""
        )
        assert not nameless, nameless

    def close(self, shot):
        self.page.screenshot(path=FOLDER / f"{shot}.png", full_page=True)
        assert not self.trouble, f"{shot}: {self.trouble}"
        self.page.context.close()


def check_demo(browser):
    page_path = FOLDER / "demo.html"
    robustard("demo", "--report", page_path, "--figures", FOLDER / "figures", "--force")
    page = Watched(browser, page_path)
    expected = CHARTS | {"curve", "effect-1", "noise", "row-paths"}
    page.check_texts()
    check_first_screen(page)
    page.open_details()
    assert page.charts() == expected, expected ^ page.charts()
    figures = {path.stem for path in (FOLDER / "figures").glob("*.svg")}
    assert figures == expected, figures ^ expected

    # Hovering over a flagged point tells which row it is.
    point = page.page.locator("#chart-predicted-actual .trace").last.locator("path.point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.page.wait_for_function("document.querySelector('#chart-predicted-actual .hoverlayer').textContent")
    hover = page.page.locator("#chart-predicted-actual .hoverlayer").text_content()
    assert "row " in hover and "actual" in hover, hover

    check_toolbar(page)

    # Sorting: numbers down first, then up.
    off = lambda: [abs(float(value)) for value in page.column(4)]
    page.page.uncheck("#flagged")
    page.page.get_by_role("button", name="std. residual").click()
    assert off() == sorted(off(), reverse=True)
    page.page.get_by_role("button", name="std. residual").click()
    assert off() == sorted(off()), off()
    assert page.page.locator("th[aria-sort=ascending]").inner_text().startswith("std. residual")
    page.page.check("#everything")
    times = lambda: [float(value) for value in page.column(9)]
    page.page.get_by_role("button", name="time").click()
    assert times() == sorted(times(), reverse=True)

    # Filtering by threshold and by text.
    page.page.fill("#threshold", "4")
    assert off() and min(off()) >= 4 and page.page.inner_text("#count") == f"{len(off())} rows"
    page.page.fill("#threshold", "0")
    page.page.fill("#search", "41.6")
    assert "41.6" in page.column(9), page.column(9)
    page.page.fill("#search", "no such text")
    assert page.page.inner_text("#count") == "0 rows"
    page.page.fill("#search", "")
    page.page.check("#flagged")

    # The download holds what the table shows.
    with page.page.expect_download() as download:
        page.page.click("#download")
    lines = list(csv.reader(open(download.value.path(), newline="")))
    assert lines[0][:4] == ["row", "actual", "predicted", "std. residual"], lines[0]
    assert [line[0] for line in lines[1:]] == page.column(1) and len(lines) > 5
    page.page.uncheck("#everything")
    check_waterfall(page)

    # Light and dark.
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(colour)
    page.page.click("#theme")
    assert page.page.evaluate(colour) != light
    page.page.click("#theme")
    page.page.wait_for_timeout(500)
    pdf = page.page.pdf()
    assert pdf.count(b"/Type /Page") > 2 and len(pdf) > 50_000
    page.close("demo")

    dark = Watched(browser, page_path, scheme="dark")
    assert dark.page.evaluate(colour) != light
    dark.close("demo-dark")
    phone = Watched(browser, page_path, width=390)
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.close("demo-phone")


def check_first_screen(page):
    """The verdict in three lines, before anything has to be scrolled."""
    lines = page.page.locator("#quality .answer").all_inner_texts()
    starts = ["How good: ", "What drives it: ", "Rows to check: "]
    assert [line[: len(start)] for line, start in zip(lines, starts)] == starts and len(lines) == 3, lines
    bottom = page.page.locator("#quality .tiles").bounding_box()
    assert bottom["y"] + bottom["height"] < 900, bottom


def check_waterfall(page):
    """A row says why it is predicted as it is, by the keyboard and by a click."""
    button = page.page.locator("#suspicious .why").first
    button.focus()
    page.page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    falls = page.page.locator(".waterfall tr")
    labels = falls.locator("th").all_inner_texts()
    assert labels[0] == "average prediction" and labels[-1] == "actual", labels
    numbers = [float(text) for text in falls.locator("td.number").all_inner_texts()]
    average, *steps, prediction, _ = numbers
    # Steps are shown with three digits.
    slack = 0.02 * sum(abs(step) for step in steps) + 1e-3 * abs(prediction)
    assert abs(average + sum(steps) - prediction) < slack, numbers
    page.page.keyboard.press("Enter")
    assert page.page.locator(".waterfall").count() == 0 and button.get_attribute("aria-expanded") == "false"
    page.page.locator("#suspicious tr.explained td").nth(2).click()
    assert page.page.locator(".waterfall").count() == 1


def check_toolbar(page):
    """Nothing on the page offers to send data anywhere."""
    titles = page.page.locator(".modebar-btn").evaluate_all("buttons => buttons.map(b => b.dataset.title)")
    assert titles and not [title for title in titles if "cloud" in title.lower() or "share" in title.lower()], titles


def check_hostile(browser):
    source = random.Random(1)
    header = [*HOSTILE["columns"], HOSTILE["id"], HOSTILE["target"]]
    rows = [[*row[:3], HOSTILE["cell"] + str(k), row[3]] for k, row in enumerate(linear_rows(source, 80, 3, 0.05))]
    rows[7][3], rows[7][4] = 'quote " and, comma\n<img src=x onerror=alert(5)>', 99.0
    table = write_table("hostile.csv", header, rows)
    page_path = FOLDER / "hostile.html"
    robustard("fit", table, "--target", HOSTILE["target"], "--id", HOSTILE["id"], "--report", page_path,
              "--figures", FOLDER / "hostile-figures", "--force", "--quiet")
    page = Watched(browser, page_path)
    page.open_details()
    missing = (CHARTS | {"effect-1", "effect-2", "effect-3"}) - page.charts()
    assert not missing, missing
    assert page.page.evaluate("document.querySelectorAll('img, svg[onload], [onerror]').length") == 0
    assert page.page.evaluate("document.scripts.length") == 3
    text = page.page.inner_text("body")
    for value in [HOSTILE["columns"][0], HOSTILE["columns"][1], HOSTILE["target"]]:
        assert value in text, f"{value} is not shown as text"
    assert any(HOSTILE["cell"] in value for value in page.column(1)), page.column(1)
    # The little markup that plotly knows must not be obeyed either.
    titles = page.page.locator(".charts.small .xtitle").all_text_contents()
    assert any("<img" in title for title in titles) and any("<b>c</b>" in title for title in titles), titles
    page.page.locator("#suspicious .why").first.click()
    labels = page.page.locator(".waterfall th").all_inner_texts()
    assert any("<img" in label for label in labels), labels
    point = page.page.locator("#chart-predicted-actual .trace").last.locator("path.point").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    with page.page.expect_download() as download:
        page.page.click("#download")
    lines = list(csv.reader(open(download.value.path(), newline="")))
    assert any(line[0] == rows[7][3] for line in lines), lines[:3]
    page.close("hostile")
    for figure in sorted((FOLDER / "hostile-figures").glob("*.svg")):
        content = figure.read_text()
        assert "<img" not in content and "<script" not in content and "<svg onload" not in content, figure


def check_large(browser):
    table = write_table("large.csv", [*(f"c{k}" for k in range(20)), "y"], linear_rows(random.Random(2), 100_000, 20, 0.1))
    page_path = FOLDER / "large.html"
    result = json.loads(robustard("fit", table, "--target", "y", "--report", page_path, "--json", "--force"))
    assert page_path.stat().st_size < PAGE_LIMIT, page_path.stat().st_size
    page = Watched(browser, page_path)
    page.open_details()
    missing = (CHARTS | {"effect-1", "effect-2", "effect-3"}) - page.charts()
    assert not missing, missing
    flagged = len(result["flagged_rows"])
    assert flagged > 5_000 and page.page.inner_text("#count") == f"{flagged} rows", page.page.inner_text("#count")
    with page.page.expect_download() as download:
        page.page.click("#download")
    lines = list(csv.reader(open(download.value.path(), newline="")))
    assert {line[0] for line in lines[1:]} == {str(row["row"]) for row in result["flagged_rows"]}
    page.close("large")


def check_wide(browser):
    """80 columns, of which many matter, with categories and collinear ones: still a page to read."""
    source = random.Random(3)
    rows = []
    for x in linear_rows(source, 600, 78, 0.02):
        kind = source.choice("pqrst")
        twin = x[0] + source.gauss(0, 0.01)
        curve = sum(source_weight * value for source_weight, value in zip(range(20, 0, -1), x[:20])) / 5
        rows.append([*x[:78], twin, kind, round(x[78] + curve + "pqrst".index(kind) + x[3] * x[4], 4)])
    table = write_table("wide.csv", [*(f"c{k}" for k in range(78)), "twin", "kind", "y"], rows)
    page_path = FOLDER / "wide.html"
    robustard("fit", table, "--target", "y", "--report", page_path, "--force", "--quiet")
    page = Watched(browser, page_path)
    height = page.page.evaluate("document.documentElement.scrollHeight")
    print(f"a page of 80 columns is {height} px high, at most {HEIGHT_LIMIT}")
    assert height <= HEIGHT_LIMIT, height
    page.check_texts()
    assert "collinear" in page.page.inner_text("#features"), page.page.inner_text("#features")
    page.close("wide")
    phone = Watched(browser, page_path, width=390)
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.close("wide-phone")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync"],
        )
        for check in [check_demo, check_hostile, check_large, check_wide]:
            check(browser)
            print(f"{check.__name__} passed", flush=True)
        browser.close()
    print(f"screenshots are in {FOLDER}")


main()
