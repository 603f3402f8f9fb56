"""MLflow's view of the runs. The only module that imports mlflow; everything it shows comes from files."""

import fcntl
import getpass
import logging
import os
import sqlite3
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
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, Experiment, InputTag, Metric, Param, ViewType
from mlflow.exceptions import MlflowException

from equiset.files import atomic_path, digest
from equiset.results.measures import Measures
from equiset.results.notes import run_note, superseded_note
from equiset.results.palette import BLACK, GREY, MODELS
from equiset.results.runs import Run

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0  # with a database that another program has locked
_BATCH = 1000  # MLflow's own limit of metrics in one call
_NOTE = "mlflow.note.content"  # what MLflow shows as the description
_SUPERSEDED = "equiset.superseded_by"
_COLOUR = "mlflow.runColor"  # of the run in MLflow's charts


@dataclass
class Tracker:
    """Sends runs of one experiment to a tracking store; sending twice changes nothing."""

    client: MlflowClient
    experiment: Experiment

    def describe(self, note: str) -> None:
        """Say on the experiment's page what it is, and that it holds trainings, which MLflow would otherwise guess."""
        for key, value in ((_NOTE, note), ("mlflow.experimentKind", "custom_model_development")):
            if self.experiment.tags.get(key) != value:
                self.client.set_experiment_tag(self.experiment.experiment_id, key, value)

    def send_run(self, run: Run) -> str:
        """Send one run unless it is there already, and return its MLflow id."""
        info = run.info
        spec = info["spec"]
        name = f"{run.variant}/seed{run.seed}"
        content = digest(run.folder / "run.json")
        tags = {
            "equiset.scale": spec["scale"],
            "equiset.variant": run.variant,
            "equiset.seed": str(run.seed),
            "equiset.spec_hash": info["spec_hash"],
            "equiset.run_digest": content,
            "equiset.data_kind": info["sets"]["kind"],
            "equiset.data_share": f"{info['sets']['share']:.4f}",
            "equiset.git_commit": info["git_commit"] or "unknown",
            _NOTE: run_note(run),
            _COLOUR: MODELS.get(spec["settings"]["model"], BLACK),
            "mlflow.user": _user(),
        }
        known = self._runs_named(name, spec["scale"])
        for other in known:
            if other.data.tags.get("equiset.run_digest") == content and other.info.status == "FINISHED":
                # A run that an earlier version of this program sent learns what this one has to say.
                for key in (_NOTE, _COLOUR):
                    if other.data.tags.get(key) != tags[key]:
                        self.client.set_tag(other.info.run_id, key, tags[key])
                return other.info.run_id
        started, ended = _milliseconds(info["started"]), _milliseconds(info["ended"])
        created = self.client.create_run(self.experiment.experiment_id, started, tags, name)
        run_id = created.info.run_id
        self._name_data(run_id, _data_input(info["sets"]))
        params = _flatten(spec["settings"]) | {"parameters": info["parameters"], "threads": info["threads"]}
        params |= {"seed": run.seed, "device": info["device"]}
        self.client.log_batch(run_id, params=[Param(key, str(value)) for key, value in params.items()])
        metrics = _metrics(run, started)
        for first in range(0, len(metrics), _BATCH):
            self.client.log_batch(run_id, metrics=metrics[first : first + _BATCH])
        self.client.log_artifact(run_id, str(run.folder / "run.json"))
        self._replace(known, run_id, content)
        self.client.set_terminated(run_id, "FINISHED", ended)
        return self._only_copy(name, tags)

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
        tags[_COLOUR] = GREY
        for key, value in tags.items():
            self.client.set_tag(other.info.run_id, key, value)
        # Last, because by its name it is found: a marking that was cut off is done again.
        self.client.update_run(other.info.run_id, name=f"superseded: {other.info.run_name}")

    def send_shown(self, files: list[Path], scale: str, measures: Measures | None = None) -> str:
        """Send the tables and figures, as artifacts of a run of their own, with the numbers that they show."""
        content = ",".join(f"{path.name}:{digest(path)[:12]}" for path in files)
        name = "tables and figures"
        known = self._runs_named(name, scale)
        for other in known:
            if other.data.tags.get("equiset.run_digest") == content and other.info.status == "FINISHED":
                return other.info.run_id
        tags = {"equiset.scale": scale, "equiset.run_digest": content, "mlflow.user": _user()}
        created = self.client.create_run(self.experiment.experiment_id, tags=tags, run_name=name)
        for path in files:
            self.client.log_artifact(created.info.run_id, str(path), path.parent.name)
        numbers = [
            Metric(f"{number.variant}/{name}", value, created.info.start_time, 0)
            for number in (measures.numbers if measures else [])
            if not number.part and not number.less
            for name, value in number.columns().items()
            if not np.isnan(value)
        ]
        for first in range(0, len(numbers), _BATCH):
            self.client.log_batch(created.info.run_id, metrics=numbers[first : first + _BATCH])
        replaced = self._replace(known, created.info.run_id, content)
        self.client.set_terminated(created.info.run_id)
        for other in replaced:
            if other.info.status == "FINISHED":  # else it may be just arriving
                self.client.delete_run(other.info.run_id)
        return self._only_copy(name, tags)

    def _replace(self, known: list[Any], run_id: str, content: str) -> list[Any]:
        """Mark what this user sent before as superseded; on a shared server nobody replaces the runs of others."""
        mine = [run for run in known if run.data.tags.get("mlflow.user", _user()) == _user()]
        for other in mine:
            if other.data.tags.get("equiset.run_digest") == content:  # the same one, just arriving or cut off
                self.client.set_tag(other.info.run_id, _SUPERSEDED, run_id)
            else:
                self._supersede(other, run_id)
        return mine

    def _only_copy(self, name: str, tags: dict[str, str]) -> str:
        """Leave one of several equal runs that were sent at the same time: the same one, whoever comes last."""
        equal = [
            other
            for other in self._runs_named(name, tags["equiset.scale"])
            if other.data.tags.get("equiset.run_digest") == tags["equiset.run_digest"]
            and other.info.status == "FINISHED"
        ]
        kept, *others = sorted(equal, key=lambda run: run.info.run_id)
        for other in others:
            self.client.delete_run(other.info.run_id)
        with suppress(MlflowException):  # no such tag: nobody saw it arriving, or another sender removed the tag
            self.client.delete_tag(kept.info.run_id, _SUPERSEDED)
        return kept.info.run_id

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
        experiment.name: f"{shown}/#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning"
        for experiment in MlflowClient(uri).search_experiments(order_by=["name"])
        if experiment.name != "Default"
    }


def _user() -> str:
    """Return whose runs these are, as MLflow shows it."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without user names
        return "unknown"


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _metrics(run: Run, started: int) -> list[Metric]:
    times = started + 1000 * np.cumsum(run.info["epoch_seconds"])
    return [
        Metric(name, float(value), int(time), int(epoch))
        for name in run.metrics.columns
        if name != "epoch"
        for epoch, value, time in zip(run.metrics["epoch"], run.metrics[name], times, strict=True)
        if not np.isnan(value)  # an epoch without validation
    ]


def _data_input(sets: dict[str, Any]) -> DatasetInput:
    source = {"source": sets["source"], "description": sets["data"], "store_sha256": sets["store_digest"]}
    dataset = Dataset(sets["dataset"], sets["digest"][:36], "local", str(source))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training and validation")])


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in settings.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
