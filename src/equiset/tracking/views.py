"""Views of an experiment that MLflow's pages offer under "Views", set up once: a table of results, and curves.

MLflow keeps a view as a tag of the experiment that its pages write and read. Its form is not documented: this is
what version 3.17 writes, and another version that does not understand it says so and shows its own view.
"""

import base64
import json
import zlib
from typing import Any

from equiset.results.measures import Measure

TAG = "mlflow.sharedViewState."
RESULTS, CURVES = "results", "curves"
CURRENT = "equiset.current"
"""Tag of a run: `yes` until another one takes its place."""

_LINE = {"lineSmoothness": 0, "scaleType": "linear", "xAxisKey": "step", "xAxisScaleType": "linear"}
_LINE |= {"selectedXAxisMetricKey": "", "yAxisKey": "metric", "yAxisExpressions": [], "range": {}}
_LINE |= {"ignoreOutliers": False, "useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}


def address(experiment: str, view: str = "") -> str:
    """Return where the runs of an experiment are on MLflow's pages, past those for language models."""
    chosen = {RESULTS: f"&viewStateShareKey={RESULTS}", CURVES: f"&viewStateShareKey={CURVES}&compareRunsMode=CHART"}
    return f"#/experiments/{experiment}/runs?workflowType=machine_learning{chosen.get(view, '')}"


def views(name: str, measure: Measure) -> dict[str, str]:
    """Return the tags that make the views of an experiment, by what it is about."""
    result = f"result/{name}"
    metrics = [result, f"{result}_paper", f"{result}_low95", f"{result}_high95"]
    metrics += ["cost/training_seconds", "cost/peak_memory_mb"]
    columns = [f"metrics.`{key}`" for key in metrics]
    columns[2:2] = [f"tags.`equiset.{key}`" for key in ("verdicts", "data_kind", "title")]
    shared = {"searchFilter": f"tags.`{CURRENT}` = 'yes'", "lifecycleFilter": "Active", "runsHiddenMode": "SHOW_ALL"}
    shared |= {"orderByKey": columns[0], "orderByAsc": not name.endswith("accuracy")}
    # Else they stand in the order of the alphabet, and cut off after a few letters.
    table = {"selectedColumns": columns, "columnOrder": columns, "columnWidths": dict.fromkeys(columns, 210)}
    # MLflow sorts sections by name, and this one should come before "cost".
    section = {"uuid": "chosen", "name": "All variants", "display": True, "deleted": False, "isGenerated": False}
    lines = dict.fromkeys([*measure.curves, "train_loss"])
    charts = [_chart("BAR", result), *(_chart("LINE", key, **_LINE) for key in lines), _chart("BAR", metrics[1])]
    # Not grouped by variant: MLflow would choose the colours of groups, and give several of them the same one.
    curves = {"compareRunCharts": charts, "compareRunSections": [section]}
    return {
        TAG + RESULTS: _view("Results, beside the paper's", shared | table),
        TAG + CURVES: _view("Curves", shared | curves),
    }


def _chart(kind: str, metric: str, **more: Any) -> dict[str, Any]:
    chart = {"uuid": f"{kind}-{metric}", "type": kind, "runsCountToCompare": 50, "metricSectionId": "chosen"}
    chart |= {"deleted": False, "isGenerated": False, "displayName": metric, "metricKey": metric}
    return {**chart, "selectedMetricKeys": [metric], **more}


def _view(name: str, state: dict[str, Any]) -> str:
    when = 1_700_000_000_000  # milliseconds; the same each time, so that sending it again changes nothing
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()  # a tag holds 5000 characters
    return json.dumps({"name": name, "createdAt": when, "updatedAt": when, "state": f"deflate;{packed}"})
