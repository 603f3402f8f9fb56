"""MLflow's view of the runs. The only module that imports mlflow; everything it shows comes from files."""

import fcntl
import getpass
import os
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

# An unreachable server must cost seconds, not the quarter of an hour of MLflow's default retries.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_ENABLE_PROMPT_REGISTRY", "false")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

import mlflow
import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, Experiment, InputTag, Metric, Param, RunTag
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException

from equiset.experiments import experiment_module
from equiset.files import atomic_path, digest_json
from equiset.results.notes import experiment_note, run_note
from equiset.results.palette import BLACK, MANY, MODELS
from equiset.results.runs import Run
from equiset.tracking.views import CURRENT, CURVES, RESULTS, TAG, address, views

if TYPE_CHECKING:
    from equiset.results.summary import Findings

_PATIENCE_S = 5.0  # with a database that another program has locked
_BATCH = 1000  # MLflow's own limit of metrics in one call
_NOTE = "mlflow.note.content"  # what MLflow shows as the description
_USER = "mlflow.user"
_COLOUR = "mlflow.runColor"  # of the run in MLflow's charts
_TRAINING = "equiset.training"  # identifies a training, however often it was interrupted
_VARIANT = "equiset.variant"

SHOWN = "tables and figures"
"""The experiment of MLflow that has them, so that they are in no legend among the runs."""


@dataclass
class Tracker:
    """Sends runs of one experiment to a tracking store; sending twice changes nothing."""

    client: MlflowClient
    experiment: Experiment

    def find(self, tags: dict[str, str]) -> list[MlflowRun]:
        """Return the runs of this user with some tags; on a shared server nobody touches the runs of others."""
        query = " and ".join(f"tags.`{key}` = '{value}'" for key, value in {_USER: _user(), **tags}.items())
        return self.client.search_runs([self.experiment.experiment_id], query)

    def find_training(self, info: dict[str, Any]) -> MlflowRun | None:
        """Return the run of a training, if it is there."""
        return next(iter(self.find({_TRAINING: _training(info)})), None)

    def begin(self, folder: Path, info: dict[str, Any]) -> MlflowRun:
        """Return the run of a training: the one of its earlier start, or a new one.

        `folder` is where its results will be; `info` is what run.json will have of what is known when it starts.
        """
        run, tags = self.find_training(info), _tags(folder, info)
        if run and run.data.tags[CURRENT] == "yes":
            return run
        name = f"{info['spec']['variant']}/seed{info['spec']['seed']}"
        place = {key: tags[key] for key in ("equiset.scale", _VARIANT, "equiset.seed")}
        for other in self.find({**place, CURRENT: "yes"}):
            self._rename(other, f"superseded: {name}", "no")
        if run:  # its settings are back after others were tried
            self._rename(run, name, "yes")
            return run
        tags |= {_TRAINING: _training(info), _USER: _user(), CURRENT: "yes", _COLOUR: self._colour(info["spec"])}
        run = self.client.create_run(self.experiment.experiment_id, _milliseconds(info["started"]), tags, name)
        self._log(run, {}, _params(info["spec"]), {})
        return run

    def _rename(self, run: MlflowRun, name: str, current: str) -> None:
        """Say whether a run is the newest of its variant, seed and scale: to people by its name, to views by a tag."""
        self.client.update_run(run.info.run_id, name=name)
        self.client.set_tag(run.info.run_id, CURRENT, current)

    def _colour(self, spec: dict[str, Any]) -> str:
        """Return the colour of a variant: that of its other seeds, else one that no other variant has."""
        runs = self.client.search_runs([self.experiment.experiment_id], f"tags.`{CURRENT}` = 'yes'")
        used = {run.data.tags[_VARIANT]: run.data.tags[_COLOUR] for run in runs}
        choice = [MODELS.get(spec["settings"]["model"], BLACK), *MANY]
        free = (colour for colour in choice if colour not in used.values())
        return used.get(spec["variant"]) or next(free, choice[0])

    def send_epochs(self, run: MlflowRun, rows: list[dict[str, float]], seconds: list[float], known: int = 0) -> None:
        """Send what was measured after each epoch, without those that are known. One that comes twice stays one."""
        times = run.info.start_time + 1000 * np.cumsum(seconds)
        metrics = [
            Metric(name, float(value), int(time), int(row["epoch"]))
            for row, time in list(zip(rows, times, strict=True))[known:]
            for name, value in row.items()
            if name != "epoch" and not np.isnan(value)  # an epoch without validation
        ]
        for first in range(0, len(metrics), _BATCH):
            self.client.log_batch(run.info.run_id, metrics=metrics[first : first + _BATCH])

    def set_status(self, run: MlflowRun, status: str, why: str) -> None:
        """Say how a training stands, and why it failed."""
        self._log(run, {}, {}, {"equiset.failure": why[:5000]} if why else {})
        self.client.set_terminated(run.info.run_id, status)  # of one that is RUNNING, MLflow shows how long it has been

    def send_run(self, run: Run, findings: "Findings") -> str:
        """Send a training that has ended, with its results, unless they are there already; return its MLflow id."""
        info, sent = run.info, self.begin(run.folder, run.info)
        metrics, tags = _results(run, findings)
        there = metrics.items() <= sent.data.metrics.items() and tags.items() <= sent.data.tags.items()
        if not (there and sent.info.status == "FINISHED"):
            self.send_epochs(sent, run.metrics.to_dict("records"), info["epoch_seconds"])
            self.client.log_inputs(sent.info.run_id, [_data_input(info["sets"])])
            self._send_artifacts(sent, run)
            # Last, because by them a run that was sent whole is known.
            self._log(sent, metrics, {**_params(info["spec"]), "parameters": info["parameters"]}, tags)
            self.client.set_terminated(sent.info.run_id, "FINISHED", _milliseconds(info["ended"]))
        return sent.info.run_id

    def _log(self, run: MlflowRun, metrics: dict[str, float], params: dict[str, Any], tags: dict[str, str]) -> None:
        now = int(1000 * time.time())  # of two values MLflow shows the later one
        self.client.log_batch(
            run.info.run_id,
            [Metric(name, value, now, 0) for name, value in metrics.items()],
            [Param(name, str(value)) for name, value in params.items()],
            [RunTag(name, value) for name, value in tags.items()],
        )

    def _send_artifacts(self, sent: MlflowRun, run: Run) -> None:
        """Send the files of a run, a figure of it, and the network as a model that can be loaded."""
        # runs/<variant>/seed<seed> lie in the experiment's folder, and that beside the logs.
        experiment = run.folder.parents[2]
        files = [run.folder / name for name in ("run.json", "metrics.parquet", "predictions.parquet")]
        files.append(experiment.parent / "logs/train" / experiment.name / run.variant / f"seed{run.seed}.log")
        from equiset.results.summary import curves

        with tempfile.TemporaryDirectory() as folder:
            curves(run).write(Path(folder) / "curves.png")
            for file in [*files, Path(folder) / "curves.png"]:
                if file.is_file():
                    self.client.log_artifact(sent.info.run_id, str(file))
        models = self.client.get_run(sent.info.run_id).outputs.model_outputs
        if not models and (run.folder / "weights.safetensors").is_file():
            self._send_model(sent.info.run_id, run)

    def _send_model(self, run_id: str, run: Run) -> None:
        """Log a network as a model, and register it under its variant's name."""
        # Here, because a training that logs its epochs needs none of it.
        from mlflow.models import Model, ModelSignature
        from mlflow.types import Schema, TensorSpec

        from equiset.tracking.model_file import FILES, input_shape

        mlflow.set_tracking_uri(self.client.tracking_uri)
        mlflow.set_experiment(experiment_id=self.experiment.experiment_id)
        name = f"{self.experiment.name}-{run.variant}"
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no example is wanted: the shape is said
            for file in FILES:
                shutil.copy(run.folder / file, folder)
            Model.log(
                *(None, mlflow.pyfunc, name),
                run_id=run_id,
                name=name,
                model_type="network",
                tags={"equiset.seed": run.seed, "equiset.scale": run.info["spec"]["scale"]},
                loader_module="equiset.tracking.model_file",
                data_path=folder,
                signature=ModelSignature(Schema([TensorSpec(np.dtype("float32"), input_shape(run.info))])),
                pip_requirements=["equiset", f"torch=={run.info['versions']['torch']}"],
            )

    def send_files(self, name: str, files: list[Path], scale: str) -> None:
        """Send tables and figures as the artifacts of a run of their own."""
        tags = {_USER: _user(), "equiset.scale": scale, "mlflow.runName": name}
        run = next(iter(self.find(tags)), None) or self.client.create_run(self.experiment.experiment_id, tags=tags)
        for path in files:
            self.client.log_artifact(run.info.run_id, str(path), path.parent.name)
        self.client.set_terminated(run.info.run_id)


def open_store(uri: str) -> MlflowClient:
    """Open a tracking store, within `sending`; a new SQLite file gets its tables here."""
    database = _database(uri)
    if database and database.exists():
        # MLflow tries to open what it cannot read for two minutes.
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", _PATIENCE_S, uri=True)) as opened:
            opened.execute("select name from sqlite_master").fetchone()
    elif database:
        # A process that is killed between two of the many tables must not leave a database that none can open.
        with atomic_path(database) as partial:
            MlflowClient(tracking_uri=f"sqlite:///{partial}").search_experiments(max_results=1)
    return MlflowClient(tracking_uri=uri)


def remedy(uri: str) -> str:
    """Say what to do when a store does not take the runs."""
    if not ((database := _database(uri)) and database.exists()):
        return "Send them later: make track"
    if "'" in str(Path.cwd()):  # MLflow writes the path into its queries as it is
        return "Rename the folder of the project, so that its path has no quotation mark, and send them: make track"
    return f"Close what else uses {database}; if it is damaged, delete it: it holds copies. Then send them: make track"


def _database(uri: str) -> Path | None:
    """Return the file of a local database; None if the runs are kept elsewhere."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def open_experiment(uri: str, name: str, shown: list[Path] | None = None) -> Tracker:
    """Return a tracker for an experiment, creating it if needed; its page has the first table of `shown`."""
    client, database = open_store(uri), _database(uri)
    if client.get_experiment_by_name(name) is None:
        # Beside a local database the artifacts stay in the project; a server keeps its own.
        folder = database and database.resolve().parent / "mlflow-artifacts" / name
        client.create_experiment(name, folder and folder.as_uri())
    experiment = client.get_experiment_by_name(name)
    # MLflow would guess what an experiment holds, from its runs.
    tags = {"mlflow.experimentKind": "custom_model_development"}
    if name == SHOWN:
        tags[_NOTE] = "The tables and figures of each experiment, as artifacts of one run for each."
    elif shown or _NOTE not in experiment.tags:  # else it was described, perhaps with a table
        about, measures = (experiment_module(name, part) for part in ("about", "measures"))
        table = next((path.read_text(encoding="utf-8") for path in shown or [] if path.suffix == ".md"), "")
        links = [address(experiment.experiment_id, view) for view in (RESULTS, CURVES)]
        tags[_NOTE] = experiment_note(about.QUESTION, about.PAPER, *links, table)
        tags |= views(*next(iter(measures.MEASURES.items())))
    for key in [key for key, value in tags.items() if experiment.tags.get(key) != value]:
        client.set_experiment_tag(experiment.experiment_id, key, tags[key])
    return Tracker(client, experiment)


def addresses(uri: str, shown: str) -> dict[str, str]:
    """Return where the runs of each experiment are, on the pages at `shown`; nothing if that cannot be known now."""
    try:
        found = MlflowClient(uri).search_experiments(order_by=["name"])
    except MlflowException:
        return {}
    return {
        experiment.name: f"{shown}/{address(experiment.experiment_id, RESULTS * (TAG + RESULTS in experiment.tags))}"
        for experiment in found
        if experiment.name != "Default"
    }


def was_too_slow(error: Exception) -> bool:
    """Say whether somebody else entered the same experiment or data at the same moment; they are there now."""
    return getattr(error, "error_code", "") in ("RESOURCE_ALREADY_EXISTS", "BAD_REQUEST")


@contextmanager
def sending(uri: str) -> Iterator[None]:
    """Let one process of a project at a time use a store.

    Several would send what is there already, and break a new database by making its tables together.
    """
    name = f"equiset-{digest_json([uri, os.getcwd(), _user()])[:16]}.lock"
    with (Path(tempfile.gettempdir()) / name).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
        yield


def _tags(folder: Path, info: dict[str, Any]) -> dict[str, str]:
    spec, sets = info["spec"], info["sets"]
    return {
        "equiset.scale": spec["scale"],
        _VARIANT: spec["variant"],
        "equiset.seed": str(spec["seed"]),
        "equiset.spec_hash": info["spec_hash"],
        "equiset.device": info["device"],
        "equiset.threads": str(info["threads"]),
        "equiset.data_kind": sets["kind"],
        "equiset.data_share": f"{sets['share']:.4f}",
        "equiset.git_commit": info["git_commit"] or "unknown",
        _NOTE: run_note(folder, info),
    }


def _results(run: Run, findings: "Findings") -> tuple[dict[str, float], dict[str, str]]:
    """Return the final numbers of a run, and what is said of it, by the names that they have in MLflow."""
    from equiset.results.summary import costs, numbers

    measures = experiment_module(run.info["spec"]["experiment"], "measures").MEASURES
    found = {f"result/{name}": float(f"{value:.6g}") for name, value in numbers(run, measures, findings).items()}
    found |= {f"cost/{name}": float(value) for name, value in costs(run).items()}
    verdicts = findings.verdicts(run)
    tags = {f"claim.{name}": verdict for name, verdict in verdicts.items()}
    tags["equiset.verdicts"] = "; ".join(f"{name} {verdict.split(' (')[0]}" for name, verdict in verdicts.items())
    tags |= {"equiset.paper": findings.paper(run), "equiset.title": findings.title(run)}
    return found, {key: value for key, value in tags.items() if value} | _tags(run.folder, run.info)


def _training(info: dict[str, Any]) -> str:
    return info.get("training") or info["spec_hash"]  # of a run made before trainings were identified


def _params(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run, by their names in `config.yaml`. MLflow lets none of them change later."""
    (settings,) = pd.json_normalize(spec["settings"]).to_dict("records")
    return {key: spec[key] for key in ("variant", "seed", "scale")} | settings


def _user() -> str:
    """Return whose runs these are, as MLflow shows it."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without user names
        return "unknown"


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _data_input(sets: dict[str, Any]) -> DatasetInput:
    source = {"source": sets["source"], "description": sets["data"], "store_sha256": sets["store_digest"]}
    dataset = Dataset(sets["dataset"], sets["digest"][:36], "local", str(source))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training and validation")])
