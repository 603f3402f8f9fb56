"""What a person sees: the report on a desk and on a phone, and MLflow's pages. In a real browser, if there is one.

`EQUISET_SCREENSHOTS=folder` keeps pictures of the pages.
"""

import os
from pathlib import Path

import pytest

from equiset.tracking import MlflowClient

from ..unit.test_report import page_of

# What sticks out of the window, or out of a box that does not scroll, and texts that lie on each other.
STICKING_OUT = """
[...document.querySelectorAll('body *')].filter(element => {
  if (element.closest('.scroll, .zoom, svg') && !element.matches('.scroll, .zoom')) return false;
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


def test_mlflow_lists_the_experiments(browser, mlflow_server):
    page = browser.open(f"{mlflow_server}/#/experiments?workflowType=machine_learning")
    page.wait_for_text("mnist_sums")
    page.wait_for_text("redshift")
    keep(page, "mlflow-experiments")


def experiment_of(mlflow_server, name):
    client = MlflowClient(mlflow_server)
    experiment = client.get_experiment_by_name(name).experiment_id
    return experiment, {run.info.run_name: run.info.run_id for run in client.search_runs([experiment])}


def test_mlflow_lists_the_runs_by_name_and_marks_the_superseded(browser, mlflow_server):
    experiment, _ = experiment_of(mlflow_server, "redshift")
    page = browser.open(f"{mlflow_server}/#/experiments/{experiment}/runs?workflowType=machine_learning")
    for name in ("one/seed0", "superseded: one/seed0", "tables and figures"):
        page.wait_for_text(name)
    keep(page, "mlflow-runs")


def test_a_run_of_mlflow_opens_with_its_data_and_command_and_draws_charts(browser, mlflow_server):
    experiment, runs = experiment_of(mlflow_server, "mnist_sums")
    address = f"{mlflow_server}/#/experiments/{experiment}/runs/{runs['one/seed0']}"
    page = browser.open(address)
    page.wait_for_text("the paper's data, whole: MNIST")
    page.wait_for_text("snakemake --cores all --force -- ")
    page.wait_for_text("validation_accuracy")
    keep(page, "mlflow-run")
    page = browser.open(f"{address}/model-metrics")
    # Plotly draws a curve as a path with one point for each epoch.
    points = page.wait_for("document.querySelector('.scatterlayer .js-line')?.getAttribute('d')")
    assert points.count("L") == 2
    keep(page, "mlflow-charts")


def test_figures_are_artifacts_that_mlflow_shows(browser, mlflow_server):
    experiment, runs = experiment_of(mlflow_server, "mnist_sums")
    page = browser.open(f"{mlflow_server}/#/experiments/{experiment}/runs/{runs['tables and figures']}/artifacts")
    page.wait_for_text("figures")
    keep(page, "mlflow-artifacts")
