"""From the files to MLflow: runs with what was measured on them, networks, tables, figures and the report.

The files are the truth, and MLflow shows them: sending twice changes nothing. If the store cannot be reached or is
damaged, that is a warning and no failure; `make track` sends what is missing.
"""

import csv
import json
import logging
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from typing import Any

import mlflow
import numpy as np
from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.entities import Run as MlflowRun
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

from equiset.config.resolve import REFERENCE
from equiset.config.roles import Role
from equiset.errors import EquisetError, MissingFileError
from equiset.experiments import experiment_module
from equiset.files import write_json
from equiset.results.measures import WHOLE, Measures
from equiset.results.runs import Run, read_runs
from equiset.tracking import reason, store_uri, without_password
from equiset.tracking.tracker import NOTE, SHOWN, Tracker, milliseconds, open_experiment

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Findings:
    """What was found on all runs of an experiment."""

    measures: Measures
    claims: list[dict[str, str]]
    """Rows of claims.csv."""
    conditions: list[dict[str, str]]
    """Rows of conditions.csv."""
    roles: dict[str, Role]

    def tags(self, experiment: str, variant: str) -> dict[str, str]:
        """Return the title of a variant, the paper's words on it, and the verdicts on the claims that rest on it."""
        role = self.roles.get(variant, Role())
        found = {row["claim"] for row in self._conditions(experiment, variant)}
        claims = [row for row in self.claims if row["claim"] in found]
        tags = {f"claim.{row['claim']}": f"{row['verdict']} ({row['reason']})".removesuffix(" ()") for row in claims}
        tags["equiset.verdicts"] = "; ".join(f"{row['claim']} {row['verdict']}" for row in claims)
        tags["equiset.paper"] = next((row["paper"] for row in self.claims if row["claim"] == role.claim), "")
        tags["equiset.title"] = f"{role.title} (a change of {role.changes})" if role.changes else role.title
        return {key: value for key, value in tags.items() if value}

    def paper(self, experiment: str, variant: str) -> dict[str, float]:
        """Return the paper's values of what is measured on a variant."""
        rows = [row for row in self._conditions(experiment, variant) if not row["less"]]
        expected = {row["measure"]: json.loads(row["expected"]) for row in rows}
        return {f"{name}_paper": found["value"] for name, found in expected.items() if "value" in found}

    def interval(self, variant: str, measure: str) -> dict[str, float]:
        """Return the mean over the seeds of a variant, with interval and spread."""
        number = self.measures.get(variant, measure)
        return number.columns() if number else {}

    def _conditions(self, experiment: str, variant: str) -> list[dict[str, str]]:
        """Return the conditions that are judged by a variant, alone or against another."""
        own = [row for row in self.conditions if row["experiment"] == experiment]
        return [row for row in own if variant in (row["variant"], row["less"])]


def track_runs(
    experiment: str,
    scale: str,
    uri: str | None,
    runs: list[Path],
    shown: list[Path],
    measures: Path,
    claims: Path,
    roles: dict[str, Any],
    mirror: str,
    output: Path,
) -> None:
    """Send the runs of an experiment that MLflow lacks, with what was found on them.

    Args:
        experiment: its name.
        scale: of the runs.
        uri: tracking server or database; None for the environment's, or the project's own.
        runs: their folders.
        shown: tables and figures.
        measures: every number of the experiment.
        claims: folder of the verdicts.
        roles: what each variant is in tables and figures.
        mirror: address that the data are downloaded from.
        output: JSON file, which notes what was sent.
    """
    tables = [_rows(claims / f"{name}.csv") for name in ("claims", "conditions")]
    findings = Findings(Measures.read(measures), *tables, {name: Role(**role) for name, role in roles.items()})
    sent: dict[str, str] = {}

    def send(uri: str) -> None:
        tracker = open_experiment(uri, experiment, [path for path in shown if path.suffix == ".md"])
        for group in read_runs(runs).values():
            opened = [send_run(tracker, run, findings, scale, len(group) == 1, mirror) for run in group]
            if len(group) > 1:
                send_summary(tracker, group, opened, findings, scale)
            if scale == REFERENCE:
                name_published(tracker, opened[0], group[0].variant)
            sent.update({str(run.folder): one.info.run_id for run, one in zip(group, opened, strict=True)})
        if shown:
            send_files(uri, f"{experiment} ({scale})", shown)

    fault = _send(store_uri(uri), send)
    pending = [str(folder) for folder in runs if str(folder) not in sent]
    note = {"uri": without_password(store_uri(uri)), "sent": sent, "pending": pending, "fault": fault}
    write_json(output, note)
    log.info("%d runs in %s, %d pending", len(sent), note["uri"], len(pending))


def track_report(scale: str, uri: str | None, files: list[Path], output: Path) -> None:
    """Send the report and the claims of a scale, and note whether that was possible."""
    fault = _send(store_uri(uri), lambda uri: send_files(uri, f"report ({scale})", files))
    write_json(output, {"uri": without_password(store_uri(uri)), "fault": fault})


def _send(uri: str, send: Callable[[str], None]) -> str | None:
    """Send something, and return what was wrong with the store if it was not possible."""
    try:
        send(uri)
    except EquisetError:  # a run's own file
        raise
    except Exception as error:  # whatever MLflow or its store raise
        fault = f"cannot send to {without_password(uri)}: {reason(error, uri)}"
        log.warning("%s. The results are complete. Send them later: make track", fault)
        return fault
    return None


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def send_run(tracker: Tracker, run: Run, findings: Findings, scale: str, alone: bool, mirror: str) -> MlflowRun:
    """Send what MLflow lacks of a training that has ended: its curves, results, files and network.

    Args:
        tracker: of its experiment.
        run: its files.
        findings: what was found on the experiment.
        scale: at which it is shown.
        alone: whether it is the only one of its variant, and has the interval.
        mirror: address that the data are downloaded from.
    """
    info, opened = run.info, tracker.open_training(run.info, scale)
    run_id, models = opened.info.run_id, opened.outputs.model_outputs if opened.outputs else []
    metrics = _results(run, findings, alone)
    metrics["usage/training_seconds"] = sum(info["epoch_seconds"])
    if "peak_memory_mb" in info:
        metrics["usage/peak_memory_mb"] = info["peak_memory_mb"]
    tags = findings.tags(tracker.experiment.name, run.variant)
    tracker.log_epochs(opened, run.metrics.to_dict("records"), info["epoch_seconds"])
    tracker.log(opened, metrics, tags, {"parameters": info["parameters"]}, models[0].model_id if models else None)
    tracker.client.log_inputs(run_id, [_data_input(info["sets"], scale, mirror)])
    known = {file.path for file in tracker.client.list_artifacts(run_id)}
    for file in _files_of(run):
        if file.is_file() and file.name not in known:
            tracker.client.log_artifact(run_id, str(file))
    if not models and (run.folder / "weights.safetensors").is_file():
        _send_model(tracker, run_id, run, scale)  # after the results, which MLflow copies to its page
    tracker.set_status(opened, "FINISHED", ended=milliseconds(info["ended"]))
    return opened


def _results(run: Run, findings: Findings, alone: bool) -> dict[str, float]:
    """Return the numbers of a run beside the paper's; if it is the only one of its variant, with their intervals."""
    experiment, found = run.info["spec"]["experiment"], {}
    for name, measure in experiment_module(experiment, "measures").MEASURES.items():
        try:
            sample = measure.sample(run)
        except (MissingFileError, KeyError):  # not evaluated yet, or not analysed
            continue
        if sample := sample.get(WHOLE) if isinstance(sample, dict) else sample:
            found |= (findings.interval(run.variant, name) if alone else {}) | {name: sample.value}
    return _as_metrics(found | findings.paper(experiment, run.variant))


def _as_metrics(numbers: dict[str, float]) -> dict[str, float]:
    return {f"result/{name}": float(f"{value:.6g}") for name, value in numbers.items() if not np.isnan(value)}


def _data_input(sets: dict[str, Any], scale: str, mirror: str) -> DatasetInput:
    """Return the data of a run, in the form that MLflow's page shows as a link or as a folder."""
    kind, source = "local", {"uri": f"results/{scale}/data/{sets['dataset']}/store"}
    if sets["source"] == "download":
        kind, source = "http", {"url": mirror}
    profile = {"data": sets["data"], "kind": sets["kind"], "store_sha256": sets["store_digest"]}
    dataset = Dataset(sets["dataset"], sets["digest"][:36], kind, json.dumps(source), profile=json.dumps(profile))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training and validation")])


def _files_of(run: Run) -> list[Path]:
    # runs/<variant>/seed<seed> are in the experiment's folder, and that is beside the logs.
    experiment = run.folder.parents[2]
    log = experiment.parent / "logs/train" / experiment.name / run.variant / f"seed{run.seed}.log"
    return [*(run.folder / name for name in ("run.json", "metrics.parquet", "predictions.parquet")), log]


def _send_model(tracker: Tracker, run_id: str, run: Run, scale: str) -> None:
    """Log a network as a model, and register it under the name of its variant."""
    from equiset.tracking.model_file import FILES, input_shape

    client, name = tracker.client, f"{tracker.experiment.name}-{run.variant}"
    tags = {"equiset.scale": scale, "equiset.seed": str(run.seed)}
    mlflow.set_tracking_uri(client.tracking_uri)
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore"),  # MLflow asks for an example, but the shape is known
        mlflow.start_run(run_id=run_id),
    ):
        for file in FILES:
            copy(run.folder / file, folder)
        model = mlflow.pyfunc.log_model(
            name=name,
            registered_model_name=name,
            model_type="network",
            tags={**tags, "mlflow.source.name": "workflow/scripts/track.py"},  # Snakemake runs a copy with another name
            loader_module="equiset.tracking.model_file",
            data_path=folder,
            signature=ModelSignature(Schema([TensorSpec(np.dtype("float32"), input_shape(run.info))])),
            pip_requirements=["equiset", f"torch=={run.info['versions']['torch']}"],
        )
    for key, value in tags.items():
        client.set_model_version_tag(name, str(model.registered_model_version), key, value)


def name_published(tracker: Tracker, opened: MlflowRun, variant: str) -> None:
    """Give the network of a published run the alias `published`, by which it can be loaded."""
    client, name = tracker.client, f"{tracker.experiment.name}-{variant}"
    for version in client.search_model_versions(f"name = '{name}' and run_id = '{opened.info.run_id}'"):
        if "published" not in version.aliases:
            client.set_registered_model_alias(name, "published", version.version)


def send_summary(tracker: Tracker, group: list[Run], opened: list[MlflowRun], findings: Findings, scale: str) -> None:
    """Send a run for all seeds of a variant, with mean, interval and verdicts; those of the seeds are nested in it."""
    experiment, variant = tracker.experiment.name, group[0].variant
    names = experiment_module(experiment, "measures").MEASURES
    numbers = {key: value for name in names for key, value in findings.interval(variant, name).items()}
    seeds = ", ".join(str(run.seed) for run in group)
    tags = findings.tags(experiment, variant) | {"equiset.data_kind": opened[0].data.tags["equiset.data_kind"]}
    tags[NOTE] = f"The mean over the seeds {seeds}, with its interval. Their own runs are nested in this one."
    place = {"equiset.scale": scale, "equiset.variant": variant, "equiset.seed": "all"}
    started = min(one.info.start_time for one in opened)
    summary = tracker.open(f"{variant}/all seeds ({scale})", place, "all", {}, started)
    tracker.log(summary, _as_metrics(numbers | findings.paper(experiment, variant)), tags)
    tracker.set_status(summary, "FINISHED", ended=max(milliseconds(run.info["ended"]) for run in group))
    for one in opened:
        tracker.log(one, tags={"mlflow.parentRunId": summary.info.run_id})


def send_files(uri: str, name: str, files: list[Path]) -> None:
    """Send tables, figures or a report as the artifacts of a run of their own."""
    tracker = open_experiment(uri, SHOWN)
    newest = int(1000 * max(path.stat().st_mtime for path in files))
    run = tracker.open(name, {"equiset.shown": name}, name, {}, newest)
    for path in files:
        folder = path.parent.name if path.parent.name in ("tables", "figures", "claims") else None
        tracker.client.log_artifact(run.info.run_id, str(path), folder)
    tracker.set_status(run, "FINISHED", ended=newest)
