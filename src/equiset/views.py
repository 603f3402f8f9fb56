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
"""Tag of a run: `no` after another one took its place."""


def address(experiment: str, view: str = "") -> str:
    """Return where the runs of an experiment are on MLflow's pages, past those for language models."""
    chosen = {RESULTS: f"&viewStateShareKey={RESULTS}", CURVES: f"&viewStateShareKey={CURVES}&compareRunsMode=CHART"}
    return f"#/experiments/{experiment}/runs?workflowType=machine_learning{chosen.get(view, '')}"


def views(name: str, measure: Measure) -> dict[str, str]:
    """Return the tags that make the views of an experiment, by what it is about."""
    result = [f"result/{name}{end}" for end in ("", "_low95", "_high95", "_paper")]
    columns = [_column("metrics", key) for key in (result[0], result[3])]
    columns += [_column("tags", f"equiset.{key}") for key in ("verdicts", "data_kind", "title")]
    columns += [_column("metrics", key) for key in result[1:3]]
    columns += [_column("metrics", f"cost/{key}") for key in ("training_seconds", "peak_memory_mb")]
    smaller_is_better = not name.endswith("accuracy")
    shared = {"searchFilter": f"tags.`{CURRENT}` = 'yes'", "lifecycleFilter": "Active", "runsHiddenMode": "SHOW_ALL"}
    shared |= {"orderByKey": _column("metrics", result[0]), "orderByAsc": smaller_is_better}
    by_variant = {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "equiset.variant"}]}
    section = {"uuid": "chosen", "name": "By variant", "display": True, "deleted": False, "isGenerated": False}
    lines = dict.fromkeys([*measure.curves, "train_loss"])
    charts = [_chart("BAR", result[0]), *(_chart("LINE", key) for key in lines), _chart("BAR", result[3])]
    # Else they stand in the order of the alphabet, and cut off after a few letters.
    order = {"columnOrder": columns, "columnWidths": dict.fromkeys(columns, 210)}
    table = {**shared, "selectedColumns": columns, **order}
    curves = {**shared, "groupBy": by_variant, "compareRunCharts": charts, "compareRunSections": [section]}
    return {
        TAG + RESULTS: _view("Results, beside the paper's", table),
        TAG + CURVES: _view("Curves, by variant", curves),
    }


def _column(kind: str, name: str) -> str:
    return f"{kind}.`{name}`"


def _chart(kind: str, metric: str) -> dict[str, Any]:
    chart = {"uuid": f"{kind}-{metric}", "type": kind, "runsCountToCompare": 50, "metricSectionId": "chosen"}
    chart |= {"deleted": False, "isGenerated": False, "displayName": metric, "metricKey": metric}
    if kind == "LINE":
        chart |= {"selectedMetricKeys": [metric], "lineSmoothness": 0, "scaleType": "linear", "xAxisKey": "step"}
        chart |= {"xAxisScaleType": "linear", "selectedXAxisMetricKey": "", "yAxisKey": "metric", "range": {}}
        chart |= {
            "yAxisExpressions": [],
            "ignoreOutliers": False,
            "useGlobalXaxisKey": True,
            "useGlobalLineSmoothing": True,
        }
    return chart


def _view(name: str, state: dict[str, Any]) -> str:
    when = 1_700_000_000_000  # milliseconds; the same each time, so that sending it again changes nothing
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()  # a tag holds 5000 characters
    return json.dumps({"name": name, "createdAt": when, "updatedAt": when, "state": f"deflate;{packed}"})
