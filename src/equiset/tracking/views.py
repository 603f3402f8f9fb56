"""What MLflow's pages show of an experiment: its description, a table of results, and curves.

MLflow keeps a view (a choice of columns and charts, offered under "Views") as a tag of the experiment that its pages
write and read. The form is not documented: this is what version 3.17 writes. A version that does not understand it
says so and shows its own view.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from mlflow.entities import Experiment

from equiset.experiments import experiment_module
from equiset.results.measures import Measure

CURRENT = "equiset.current"
"""Tag of a run: `yes` until another one takes its place."""

_VIEW = "mlflow.sharedViewState."
_ROOM = 4900  # characters; MLflow keeps 5000 of an experiment's description
_LINE = {"lineSmoothness": 0, "scaleType": "linear", "xAxisKey": "step", "xAxisScaleType": "linear"}
_LINE |= {"selectedXAxisMetricKey": "", "yAxisKey": "metric", "yAxisExpressions": [], "range": {}}
_LINE |= {"ignoreOutliers": False, "useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}


def address(experiment: Experiment) -> str:
    """Return where the runs of an experiment are on MLflow's pages, in its table of results if it has one."""
    return _address(experiment.experiment_id, "&viewStateShareKey=results" * (f"{_VIEW}results" in experiment.tags))


def _address(experiment_id: str, view: str) -> str:
    # The workflow type leads past the pages for language models, which list no runs (mlflow issue 24498).
    return f"#/experiments/{experiment_id}/runs?workflowType=machine_learning{view}"


def describe_experiment(name: str, experiment_id: str, tables: list[Path]) -> dict[str, str]:
    """Return the tags that make the description and the views of an experiment."""
    about, measures = experiment_module(name, "about"), experiment_module(name, "measures").MEASURES
    results = _address(experiment_id, "&viewStateShareKey=results")
    curves = _address(experiment_id, "&viewStateShareKey=curves&compareRunsMode=CHART")
    note = (
        f"{about.QUESTION} ({about.PAPER})  \n"
        f"[Table of results]({results}) · [Charts]({curves})\n\n"
        "One run for each variant and seed, and one for all seeds of a variant if there are several. All tables and "
        "figures are in the experiment *tables and figures*. To see one scale, filter with "
        '``tags.`equiset.scale` = "demo"``. Runs whose name begins with *superseded* were run again later.\n'
    )
    whole = note + "".join(f"\n{path.read_text(encoding='utf-8')}" for path in tables[:1])
    return {"mlflow.note.content": whole if len(whole) < _ROOM else note, **_views(*next(iter(measures.items())))}


def _views(name: str, measure: Measure) -> dict[str, str]:
    """Return the tags that make the views of an experiment, by its first measure."""
    result = f"result/{name}"
    columns = [f"metrics.`{result}`"]
    columns += [f"tags.`equiset.{key}`" for key in ("paper", "verdicts", "scale", "data_kind", "title")]
    more = (f"{result}_low95", f"{result}_high95", "usage/training_seconds", "usage/peak_memory_mb")
    columns += [f"metrics.`{key}`" for key in more]
    shared = {"searchFilter": f"tags.`{CURRENT}` = 'yes'", "lifecycleFilter": "Active", "runsHiddenMode": "SHOW_ALL"}
    shared |= {"orderByKey": columns[0], "orderByAsc": not name.endswith("accuracy")}
    # Otherwise they are in alphabetical order, and cut off after a few letters.
    table = {"selectedColumns": columns, "columnOrder": columns, "columnWidths": dict.fromkeys(columns, 190)}
    # MLflow sorts sections by name: this one comes before the generated ones.
    section = {"uuid": "chosen", "name": "All runs", "display": True, "deleted": False, "isGenerated": False}
    lines = [_chart("LINE", f"epoch/{key}", **_LINE) for key in dict.fromkeys([*measure.curves, "train_loss"])]
    charts = [*lines, _chart("BAR", result), _chart("BAR", f"{result}_paper")]
    return {
        f"{_VIEW}results": _view("Results, beside the paper's", shared | table),
        f"{_VIEW}curves": _view("Curves", shared | {"compareRunCharts": charts, "compareRunSections": [section]}),
    }


def _chart(kind: str, metric: str, **more: Any) -> dict[str, Any]:
    chart = {"uuid": f"{kind}-{metric}", "type": kind, "runsCountToCompare": 50, "metricSectionId": "chosen"}
    chart |= {"deleted": False, "isGenerated": False, "displayName": metric, "metricKey": metric}
    return {**chart, "selectedMetricKeys": [metric], **more}


def _view(name: str, state: dict[str, Any]) -> str:
    when = 1_700_000_000_000  # milliseconds; the same each time, so that sending it again changes nothing
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()  # a tag holds 5000 characters
    return json.dumps({"name": name, "createdAt": when, "updatedAt": when, "state": f"deflate;{packed}"})
