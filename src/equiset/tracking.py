"""MLflow's view of the runs. The only module that imports mlflow; everything it shows comes from files."""

import fcntl
import getpass
import logging
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

# An unreachable server must cost seconds, not the quarter of an hour of MLflow's default retries.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_ENABLE_PROMPT_REGISTRY", "false")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

import numpy as np
from mlflow import MlflowClient, pyfunc
from mlflow.entities import (
    Dataset,
    DatasetInput,
    Experiment,
    InputTag,
    LoggedModelOutput,
    Metric,
    Param,
    RunTag,
    ViewType,
)
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

from equiset.experiments import experiment_module
from equiset.files import atomic_path, digest, digest_json
from equiset.results.notes import run_note, superseded_note
from equiset.results.palette import BLACK, GREY, MANY, MODELS, shade
from equiset.results.runs import Run
from equiset.results.summary import Findings, costs, curves, numbers
from equiset.views import CURRENT, RESULTS, TAG, address

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0  # with a database that another program has locked
_BATCH = 1000  # MLflow's own limit of metrics in one call
_NOTE = "mlflow.note.content"  # what MLflow shows as the description
_SUPERSEDED = "equiset.superseded_by"
_TRAINING = "equiset.training"
_CONTENT = "equiset.run_digest"  # of what was sent, when all of it was
_COLOUR = "mlflow.runColor"  # of the run in MLflow's charts


@dataclass
class Tracker:
    """Sends runs of one experiment to a tracking store; sending twice changes nothing."""

    client: MlflowClient
    experiment: Experiment

    def describe(self, note: str, views: dict[str, str] | None = None) -> None:
        """Say on the experiment's page what it is, and that it holds trainings, which MLflow would otherwise guess."""
        for key, value in {_NOTE: note, "mlflow.experimentKind": "custom_model_development", **(views or {})}.items():
            if self.experiment.tags.get(key) != value:
                self.client.set_experiment_tag(self.experiment.experiment_id, key, value)

    def begin(self, folder: Path, info: dict[str, Any]) -> MlflowRun:
        """Return the run of a training: the one of its earlier start, or a new one.

        Args:
            folder: where its results will be.
            info: what is known when it starts; the content of run.json has that, too.
        """
        spec = info["spec"]
        name = run_name(spec)
        for other in self._runs_named(name, spec["scale"]):
            if other.data.tags.get(_TRAINING) == _training(info) and _is_mine(other):
                return other
        tags = {_TRAINING: _training(info), "mlflow.user": _user(), CURRENT: "yes", **_tags(folder, info)}
        tags[_COLOUR] = self._colour(spec)
        created = self.client.create_run(self.experiment.experiment_id, _milliseconds(info["started"]), tags, name)
        self._name_data(created.info.run_id, _data_input(info["sets"]))
        params = _flatten(spec["settings"]) | {"seed": spec["seed"], "device": info["device"]}
        params |= {"threads": info["threads"], "variant": spec["variant"], "scale": spec["scale"]}
        self.client.log_batch(created.info.run_id, params=[Param(key, str(value)) for key, value in params.items()])
        return created

    def _colour(self, spec: dict[str, Any]) -> str:
        """Return the colour of a variant: that of its other seeds, else one that no other variant has."""
        runs = self.client.search_runs([self.experiment.experiment_id], f"tags.`{CURRENT}` = 'yes'")
        used = {run.data.tags["equiset.variant"]: run.data.tags.get(_COLOUR) for run in runs}
        if colour := used.get(spec["variant"]):
            return colour
        base = MODELS.get(spec["settings"]["model"], BLACK)
        choice = [base, shade(base, 0.45), shade(base, -0.45), *MANY]
        return next((colour for colour in choice if colour not in used.values()), base)

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

    def set_status(self, run: MlflowRun, status: str, why: str = "") -> None:
        """Say how a training stands."""
        if why:
            self.client.set_tag(run.info.run_id, "equiset.failure", why[:5000])
        if status == "RUNNING":
            self.client.update_run(run.info.run_id, status)
        else:
            self.client.set_terminated(run.info.run_id, status)

    def send_run(self, run: Run, findings: Findings | None = None) -> str:
        """Send one run with its results unless they are there already, and return its MLflow id.

        Args:
            run: a training that has ended, perhaps without predictions yet.
            findings: what was found on all runs of the experiment, if that is known.
        """
        info, spec = run.info, run.info["spec"]
        found = _results(run, findings or Findings())
        content = digest_json([digest(run.folder / "run.json"), *found])
        known = self._runs_named(run_name(spec), spec["scale"])
        for other in known:
            sent = other.data.tags.get(_CONTENT, "")
            if other.info.status == "FINISHED" and (sent == content or (sent and not findings and _same(other, info))):
                return other.info.run_id
        sent = self.begin(run.folder, info)
        run_id = sent.info.run_id
        self.send_epochs(sent, run.metrics.to_dict("records"), info["epoch_seconds"])
        numbers, tags = found
        ended = _milliseconds(info["ended"])
        self.client.log_batch(
            run_id,
            metrics=[Metric(name, value, ended, 0) for name, value in numbers.items()],
            params=[Param("parameters", str(info["parameters"]))],
            tags=[RunTag(key, value) for key, value in (tags | _tags(run.folder, info)).items()],
        )
        self._send_files(run_id, run)
        for other in known:
            if other.info.run_id != run_id and _is_mine(other):
                self._supersede(other, run_id)
        self.client.set_tag(run_id, _CONTENT, content)
        self.client.set_terminated(run_id, "FINISHED", ended)
        return run_id

    def _send_files(self, run_id: str, run: Run) -> None:
        """Send the files of a run, a figure of it, and the network as a model that can be loaded."""
        there = {file.path for file in self.client.list_artifacts(run_id)}
        names = ("run.json", "metrics.parquet", "predictions.parquet")
        files = [run.folder / name for name in names if (run.folder / name).is_file()]
        # runs/<variant>/seed<seed> lie in the experiment's folder, and that beside the logs.
        experiment = run.folder.parents[2]
        said = experiment.parent / "logs" / "train" / experiment.name / run.variant / f"seed{run.seed}.log"
        files += [said] * said.is_file()
        for file in files:
            self.client.log_artifact(run_id, str(file))
        with tempfile.TemporaryDirectory() as folder:
            curves(run).write(Path(folder) / "curves.png")
            self.client.log_artifact(run_id, f"{folder}/curves.png")
            if "curves.png" not in there and (run.folder / "weights.safetensors").is_file():
                self._send_model(run_id, run, Path(folder))

    def _send_model(self, run_id: str, run: Run, folder: Path) -> None:
        """Log a network as a model, and register it under its variant's name."""
        from equiset.model_file import FILES, input_shape  # with torch, which nothing else needs here

        shape = TensorSpec(np.dtype("float32"), input_shape(run.info))
        (folder / "files").mkdir()
        for name in FILES:
            shutil.copy(run.folder / name, folder / "files")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no example is wanted: the shape is said
            pyfunc.save_model(
                folder / "model",
                loader_module="equiset.model_file",
                data_path=folder / "files",
                signature=ModelSignature(inputs=Schema([shape])),
                pip_requirements=["equiset", f"torch=={run.info['versions']['torch']}"],
            )
        name = f"{self.experiment.name}-{run.variant}"
        model = self.client.create_logged_model(self.experiment.experiment_id, name, run_id, model_type="network")
        self.client.log_model_artifacts(model.model_id, str(folder / "model"))
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
        with suppress(MlflowException):  # it is there
            self.client.create_registered_model(name)
        tags = {"equiset.seed": str(run.seed), "equiset.scale": run.info["spec"]["scale"]}
        self.client.create_model_version(name, model.artifact_location, run_id, tags, model_id=model.model_id)

    def send_files(self, name: str, files: list[Path], scale: str) -> None:
        """Send tables and figures as the artifacts of a run of their own; it takes the place of an earlier one."""
        content = digest_json({f"{path.parent.name}/{path.name}": digest(path) for path in files})
        known = [run for run in self._runs_named(name, scale) if _is_mine(run)]
        if any(run.data.tags.get(_CONTENT) == content and run.info.status == "FINISHED" for run in known):
            return
        tags = {"equiset.scale": scale, _CONTENT: content, "mlflow.user": _user()}
        run_id = self.client.create_run(self.experiment.experiment_id, tags=tags, run_name=name).info.run_id
        for path in files:
            self.client.log_artifact(run_id, str(path), path.parent.name)
        self.client.set_terminated(run_id)
        for other in known:
            self.client.delete_run(other.info.run_id)

    def _name_data(self, run_id: str, data: DatasetInput) -> None:
        """Say what a run learnt from. MLflow refuses the slower of two that enter the same data at once, with all."""
        try:
            self.client.log_inputs(run_id, [data])
        except MlflowException as error:
            if error.error_code != "BAD_REQUEST":
                raise
            self.client.log_inputs(run_id, [data])  # the faster one's entry is there now

    def _supersede(self, other: Any, run_id: str) -> None:
        """Mark a run whose place another one took: for programs by a tag, for people in its name and description."""
        tags = {_SUPERSEDED: run_id, _NOTE: superseded_note(run_id, other.data.tags.get(_NOTE, ""))}
        tags |= {_COLOUR: GREY, CURRENT: "no"}
        for key, value in tags.items():
            self.client.set_tag(other.info.run_id, key, value)
        # Last, because by its name it is found: a marking that was cut off is done again.
        self.client.update_run(other.info.run_id, name=f"superseded: {other.info.run_name}")

    def running(self) -> set[str]:
        """Return the trainings that are thought to be under way."""
        query = "attributes.status = 'RUNNING'"
        found = self.client.search_runs([self.experiment.experiment_id], query, ViewType.ACTIVE_ONLY)
        return {run.data.tags[_TRAINING] for run in found if _TRAINING in run.data.tags and _is_mine(run)}

    def _runs_named(self, name: str, scale: str) -> list[Any]:
        query = f"attributes.run_name = '{name}' and tags.`equiset.scale` = '{scale}'"
        return self.client.search_runs([self.experiment.experiment_id], query, ViewType.ACTIVE_ONLY)


def open_store(uri: str) -> MlflowClient:
    """Open a tracking store; a new SQLite file gets its tables here."""
    with _alone(uri):
        database = _database(uri)
        if database and database.exists():
            # MLflow tries to open what it cannot read for two minutes.
            with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", _PATIENCE_S, uri=True)) as opened:
                opened.execute("select name from sqlite_master").fetchone()
        elif database:
            # A process that is killed between two of the many tables must not leave a database that none can open.
            with atomic_path(database) as partial:
                MlflowClient(tracking_uri=f"sqlite:///{partial}").search_experiments(max_results=1)
        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
    return client


def remedy(uri: str) -> str:
    """Say what to do when a store does not take the runs."""
    database = _database(uri)
    if not (database and database.exists()):
        return "Send them later: make track"
    if "'" in str(Path.cwd()):  # MLflow writes the path into its queries as it is
        return "Rename the folder of the project, so that its path has no quotation mark, and send them: make track"
    return f"Close what else uses {database}; if it is damaged, delete it: it holds copies. Then send them: make track"


def _database(uri: str) -> Path | None:
    """Return the file of a local database; None if the runs are kept elsewhere."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


@contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Let one process at a time open a local database: several that create its tables together break it."""
    database = _database(uri)
    if database is None:
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
        yield


def open_experiment(uri: str, name: str) -> Tracker:
    """Return a tracker for one experiment of the paper, creating it if needed."""
    client = open_store(uri)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # Beside a local database the artifacts stay in the project; a server keeps its own.
        database = _database(uri)
        folder = database and database.resolve().parent / "mlflow-artifacts" / name
        try:
            client.create_experiment(name, folder and folder.as_uri())
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # somebody else was faster
                raise
        experiment = client.get_experiment_by_name(name)
    return Tracker(client, experiment)


def addresses(uri: str, shown: str) -> dict[str, str]:
    """Return where the runs of each experiment are, on the pages at `shown`, past those for language models."""
    return {
        experiment.name: f"{shown}/{address(experiment.experiment_id, RESULTS * (TAG + RESULTS in experiment.tags))}"
        for experiment in MlflowClient(uri).search_experiments(order_by=["name"])
        if experiment.name != "Default"
    }


@contextmanager
def sending(uri: str) -> Iterator[None]:
    """Let one process of a project at a time send to a store: several would write what is there already."""
    name = f"equiset-{digest_json([uri, os.getcwd(), _user()])[:16]}.lock"
    with (Path(tempfile.gettempdir()) / name).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_name(spec: dict[str, Any]) -> str:
    return f"{spec['variant']}/seed{spec['seed']}"


def _tags(folder: Path, info: dict[str, Any]) -> dict[str, str]:
    spec, sets = info["spec"], info["sets"]
    return {
        "equiset.scale": spec["scale"],
        "equiset.variant": spec["variant"],
        "equiset.seed": str(spec["seed"]),
        "equiset.spec_hash": info["spec_hash"],
        "equiset.data_kind": sets["kind"],
        "equiset.data_share": f"{sets['share']:.4f}",
        "equiset.git_commit": info["git_commit"] or "unknown",
        _NOTE: run_note(folder, info),
    }


def _results(run: Run, findings: Findings) -> tuple[dict[str, float], dict[str, str]]:
    """Return the final numbers of a run, and what is said of it, by the names that they have in MLflow."""
    measures = experiment_module(run.info["spec"]["experiment"], "measures").MEASURES
    found = {f"result/{name}": value for name, value in numbers(run, measures, findings).items()}
    found |= {f"cost/{name}": float(value) for name, value in costs(run).items()}
    verdicts = findings.verdicts(run)
    tags = {f"claim.{name}": verdict for name, verdict in verdicts.items()}
    tags["equiset.verdicts"] = "; ".join(f"{name} {verdict.split(' (')[0]}" for name, verdict in verdicts.items())
    tags |= {"equiset.paper": findings.paper(run), "equiset.title": findings.title(run)}
    return found, {key: value for key, value in tags.items() if value}


def _same(other: MlflowRun, info: dict[str, Any]) -> bool:
    return other.data.tags.get(_TRAINING) == _training(info)


def _training(info: dict[str, Any]) -> str:
    """Return what identifies a training, however often it was interrupted."""
    return info.get("training") or digest_json(info)[:32]  # of a run made before trainings were identified


def _is_mine(run: MlflowRun) -> bool:
    """Say whether this user sent a run; on a shared server nobody replaces the runs of others."""
    return run.data.tags.get("mlflow.user", _user()) == _user()


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


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in settings.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
