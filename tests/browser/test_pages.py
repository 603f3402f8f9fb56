"""What a person sees: the report on a desk and on a phone, and MLflow's pages. In a real browser, if there is one.

`EQUISET_SCREENSHOTS=folder` keeps pictures of the pages.
"""

import os
import shutil
from pathlib import Path

import pytest

from equiset.results.claims_table import judge_claims
from equiset.tracking.tracker import runs_addresses

from ..report_folder import write_results
from ..unit.made_up_runs import ROOT
from ..unit.test_report import page_of

# What sticks out of the window, or out of a box that does not scroll, and texts that lie on each other.
STICKING_OUT = """
[...document.querySelectorAll('body *')].filter(element => {
  if (element.closest('.scroll, .zoom, nav, svg') && !element.matches('.scroll, .zoom, nav')) return false;
  const box = element.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && (box.left < -1 || box.right > innerWidth + 1);
}).map(element => element.outerHTML.slice(0, 120))
"""
OVERLAPPING = """
(() => {
  const found = [], begin = element => element.outerHTML.slice(0, 90);
  const boxes = [...document.querySelectorAll('h1, h2, h3, p, caption, tbody td, tbody th, figcaption, img, summary')]
    .map(element => [element, element.getBoundingClientRect()]).filter(([, box]) => box.width > 1 && box.height > 1);
  boxes.forEach(([one, a], place) => boxes.slice(place + 1, place + 40).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (!one.contains(other) && wide > 2 && high > 2) found.push(begin(one) + ' / ' + begin(other));
  }));
  return found;
})()
"""


def keep(page, name, whole=False):
    if folder := os.environ.get("EQUISET_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(Path(folder) / f"{name}.png", whole)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_fits_the_window(browser, results, width):
    page_of(results)
    page = browser.open((results / "report.html").as_uri(), width)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    keep(page, f"report-{width}", whole=True)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate(OVERLAPPING) == []
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert [address for address in page.requests() if not address.startswith(("data:", "file:"))] == []


@pytest.mark.parametrize("width", [1280, 400])
def test_the_navigation_stays_in_sight_and_a_click_leads_back_to_the_top(browser, results, width):
    page_of(results)
    page = browser.open((results / "report.html").as_uri(), width)
    page.evaluate("document.querySelector('#provenance').scrollIntoView({behavior: 'instant'})")
    assert page.evaluate("scrollY") > 500
    assert page.evaluate("Math.abs(document.querySelector('nav').getBoundingClientRect().top)") < 1
    # The title is beneath it, not behind it.
    title = "document.querySelector('#provenance-title').getBoundingClientRect()"
    assert page.evaluate(f"{title}.top >= document.querySelector('nav').getBoundingClientRect().bottom - 1")
    page.click(".top")
    page.wait_for("scrollY === 0")


def test_all_claims_print_on_two_pages(browser, results, tmp_path):
    judge_claims(ROOT / "workflow" / "claims.yaml", [], tmp_path / "claims")
    folder = write_results(tmp_path / "printed")
    for path in (tmp_path / "claims").iterdir():
        shutil.copy(path, folder / "claims")
    assert page_of(folder).count('<tr id="claim-') == 23
    page = browser.open((folder / "report.html").as_uri(), 718)  # A4 at 96 dots per inch, less its margins
    page.call("Emulation.setEmulatedMedia", media="print")
    keep(page, "report-print", whole=True)
    assert page.evaluate("document.querySelector('#claims').getBoundingClientRect().bottom + scrollY") < 2 * 1047


@pytest.mark.parametrize("experiment", ["mnist_sums", "redshift"])  # with and without a validation
def test_clicks_lead_from_mlflows_home_to_runs_charts_and_artifacts(browser, mlflow_server, experiment):
    """As a person who has never been there: nothing but the address that `make ui` prints, and clicks."""
    with browser.newcomer() as profile:
        page = browser.open(mlflow_server, profile=profile)
        page.click(experiment)
        page.wait_for_text("one/seed0 (demo)")
        keep(page, f"mlflow-{experiment}-runs")
        page.click("Views")
        page.click("Curves")
        page.wait_for_text("You're viewing a shared view")
        page.click("label:has(input[value=CHART])")
        page.wait_for_text("All runs")
        # Plotly draws a curve as a path with one point for each epoch.
        assert page.wait_for(CURVE).count("L") == 2
        keep(page, f"mlflow-{experiment}-charts")
        page.click("one/seed0 (demo)")
        page.wait_for_text("snakemake --cores all --force -- ")
        assert page.wait_for(VALUES) < 1280  # the description may not push them out of the window
        keep(page, f"mlflow-{experiment}-run")
        page.click("Model metrics")
        assert page.wait_for(CURVE).count("L") == 2  # before the bars of single numbers, which would be in view
        page.click("Artifacts")
        page.click("run.json")
        page.wait_for_text("spec_hash")
        keep(page, f"mlflow-{experiment}-artifacts")


VALUES = "[...document.querySelectorAll('span')].find(one => one.innerText === 'Value')?.getBoundingClientRect().right"
CURVE = "document.querySelector('.scatterlayer .js-line')?.getAttribute('d')"


def test_results_stand_beside_the_papers(browser, mlflow_server):
    (address,) = [link for name, link in runs_addresses(mlflow_server, mlflow_server).items() if name == "redshift"]
    page = browser.open(address)
    page.wait_for_text("Sort: result/scatter")
    page.wait_for("document.body.innerText.includes('one/seed0 (demo)')", 180)
    # What another run took the place of is in the list of all runs, and not here.
    assert "superseded: one/seed0 (demo)" not in page.evaluate("document.body.innerText")
    keep(page, "mlflow-results")


def test_tables_and_figures_are_found_beside_the_experiments(browser, mlflow_server):
    page = browser.open(mlflow_server)
    page.click("tables and figures")
    page.click("redshift (demo)")
    page.click("Artifacts")
    page.click("tables")
    page.wait_for_text("scatter.html")
    keep(page, "mlflow-tables")
