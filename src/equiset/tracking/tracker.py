"""Runs in an MLflow store: found, opened, logged to, closed; by a training while it runs, and by `send` afterwards."""

import getpass
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

# An unreachable server must cost seconds, not the quarter of an hour of MLflow's default retries.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_ENABLE_PROMPT_REGISTRY", "false")
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")  # errors of a store are logged here, in one line each
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Experiment, Metric, Param, RunTag
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException

from equiset.config.resolve import REFERENCE
from equiset.experiments import EXPERIMENTS
from equiset.files import atomic_path
from equiset.results.runs import DATA, WARNINGS
from equiset.tracking import database_file
from equiset.tracking.views import CURRENT, address, describe_experiment

_BATCH = 1000  # MLflow's own limit of metrics in one call

NOTE = "mlflow.note.content"
"""The tag that MLflow shows as the description."""
FAILURE = "equiset.failure"
SHOWN = "tables and figures"
"""The experiment of MLflow that has them, so that they are in no legend among the runs."""


def open_store(uri: str) -> MlflowClient:
    """Return a client of a store. An SQLite file that is not there is created, with all experiments."""
    database = database_file(uri)
    if database and not database.exists():
        # A process that is killed between two of the many tables must not leave a database that none can open.
        with atomic_path(database) as partial:
            client = MlflowClient(f"sqlite:///{partial}")
            for name in (*EXPERIMENTS, SHOWN):
                _create_experiment(client, name, partial, database.parent)
    return MlflowClient(uri)


def _create_experiment(client: MlflowClient, name: str, database: Path | None, folder: Path) -> None:
    """Create an experiment. Its artifacts are beside an SQLite file, at a relative path if that of the file is."""
    try:
        client.create_experiment(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
            raise
    if database:
        # MLflow has no call for it: `create_experiment` makes paths absolute, so that a project that was copied would
        # write into the original. Clients and `make ui` take a relative path from the folder that they are started in.
        with closing(sqlite3.connect(database)) as opened, opened:
            location = str(folder / "mlflow-artifacts" / name)
            opened.execute("UPDATE experiments SET artifact_location = ? WHERE name = ?", (location, name))


def open_experiment(uri: str, name: str, tables: list[Path] | None = None) -> "Tracker":
    """Return an experiment of a store, creating it if needed. Its page shows the first table in Markdown, if any."""
    client = open_store(uri)
    if client.get_experiment_by_name(name) is None:
        database = database_file(uri)
        _create_experiment(client, name, database, database.parent if database else Path())
    experiment = client.get_experiment_by_name(name)
    # MLflow would guess from the runs what kind of experiment it is.
    tags = {"mlflow.experimentKind": "custom_model_development"}
    if name == SHOWN:
        tags[NOTE] = "The report, the claims, and the tables and figures of each experiment, as artifacts."
    elif tables or NOTE not in experiment.tags:  # else it was described, perhaps with a table
        tags |= describe_experiment(name, experiment.experiment_id, tables or [])
    for key in [key for key, value in tags.items() if experiment.tags.get(key) != value]:
        client.set_experiment_tag(experiment.experiment_id, key, tags[key])
    return Tracker(client, experiment)


@dataclass
class Tracker:
    """The runs of one experiment in a store."""

    client: MlflowClient
    experiment: Experiment

    def find(self, tags: dict[str, str]) -> list[MlflowRun]:
        """Return the runs of this user with some tags; on a shared server nobody touches the runs of others."""
        query = " and ".join(f"tags.`{key}` = '{value}'" for key, value in {"mlflow.user": _user(), **tags}.items())
        return self.client.search_runs([self.experiment.experiment_id], query)

    def open(self, name: str, place: dict[str, str], identity: str, tags: dict[str, str], started: int) -> MlflowRun:
        """Return a run, creating it if needed, and mark the other ones in its place as superseded.

        Args:
            name: which people read.
            place: tags that are the same for the runs of which only the newest counts.
            identity: what distinguishes these runs from each other.
            tags: of a new run.
            started: when, in milliseconds.
        """
        same = self.find({**place, "equiset.identity": identity})
        if not (same and same[0].data.tags[CURRENT] == "yes"):
            for other in self.find({**place, CURRENT: "yes"}):
                self._set_current(other, f"superseded: {name}", "no")
                if other.info.status == "RUNNING":  # it was killed, and will not go on
                    self.client.set_terminated(other.info.run_id, "KILLED")
            if same:  # its settings are back, after others were tried
                self._set_current(same[0], name, "yes")
        if same:
            return same[0]
        tags |= {**place, "equiset.identity": identity, "mlflow.user": _user(), CURRENT: "yes"}
        return self.client.create_run(self.experiment.experiment_id, started, tags, name)

    def _set_current(self, run: MlflowRun, name: str, current: str) -> None:
        """Mark a run as the newest in its place, or not: for people by its name, for the views by a tag."""
        self.client.update_run(run.info.run_id, name=name)
        self.client.set_tag(run.info.run_id, CURRENT, current)

    def open_training(self, info: dict[str, Any], scale: str) -> MlflowRun:
        """Return the run of a training: the one of an earlier start, or a new one.

        Args:
            info: the content of its run.json, or what is known of it when it starts.
            scale: at which it is shown; published runs have one of their own.
        """
        spec, sets = info["spec"], info["sets"]
        place = {"equiset.scale": scale, "equiset.variant": spec["variant"], "equiset.seed": str(spec["seed"])}
        tags = {
            "mlflow.source.name": "workflow/scripts/train.py",
            "mlflow.source.type": "LOCAL",
            "mlflow.source.git.commit": info["git_commit"] or "unknown",
            "equiset.spec_hash": info["spec_hash"],
            "equiset.device": info["device"],
            "equiset.threads": str(info["threads"]),
            "equiset.data_kind": sets["kind"],
            "equiset.data_share": f"{sets['share']:.4f}",
            NOTE: _description(info, scale),
        }
        # Runs made before trainings were identified have their settings' digest alone.
        identity = info.get("training") or info["spec_hash"]
        name = f"{spec['variant']}/seed{spec['seed']} ({scale})"
        run = self.open(name, place, identity, tags, milliseconds(info["started"]))
        if not run.data.params:
            settings = _flat(spec["settings"])
            self.log(run, params={key: spec[key] for key in ("variant", "seed", "scale")} | settings)
        return run

    def log(
        self,
        run: MlflowRun,
        metrics: dict[str, float] | None = None,
        tags: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
        model_id: str | None = None,
    ) -> None:
        """Log those final numbers, tags and settings that a run does not have yet."""
        now, data = int(1000 * time.time()), run.data  # of two values MLflow shows the later one
        self.client.log_batch(
            run.info.run_id,
            [Metric(key, value, now, 0, model_id) for key, value in _new(metrics, data.metrics)],
            [Param(key, str(value)) for key, value in _new(params, data.params)],
            [RunTag(key, value) for key, value in _new(tags, data.tags)],
        )

    def log_epochs(self, run: MlflowRun, rows: list[dict[str, float]], seconds: list[float], known: int = 0) -> None:
        """Log what was measured after each epoch, but for the first `known`. One that comes twice is stored once."""
        times = run.info.start_time + 1000 * np.cumsum(seconds)
        metrics = [
            Metric(f"epoch/{name}", float(value), int(time), int(row["epoch"]))
            for row, time in list(zip(rows, times, strict=True))[known:]
            for name, value in row.items()
            if name != "epoch" and not np.isnan(value)  # an epoch without validation
        ]
        for first in range(0, len(metrics), _BATCH):
            self.client.log_batch(run.info.run_id, metrics=metrics[first : first + _BATCH])

    def set_status(self, run: MlflowRun, status: str, failure: str = "", ended: int | None = None) -> None:
        """Set the status of a run: RUNNING, FINISHED or FAILED, the last with the reason."""
        run_id = run.info.run_id
        if failure:
            self.client.set_tag(run_id, FAILURE, failure[:5000])
        elif FAILURE in run.data.tags:
            self.client.delete_tag(run_id, FAILURE)
        if status == "RUNNING":
            self.client.update_run(run_id, status)
        else:
            self.client.set_terminated(run_id, status, ended)


def runs_addresses(uri: str, server: str) -> dict[str, str]:
    """Return the addresses of the experiments that have runs, on the pages of a server."""
    client = MlflowClient(uri)
    found = client.search_experiments(order_by=["name"])
    return {
        experiment.name: f"{server}/{address(experiment)}"
        for experiment in found
        if client.search_runs([experiment.experiment_id], max_results=1)
    }


def milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _new(content: dict[str, Any] | None, known: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in (content or {}).items() if known.get(key) not in (value, str(value))]


def _user() -> str:
    """Return whose runs these are, as MLflow shows it."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without user names
        return "unknown"


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by their full names in `config.yaml`."""
    flat = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _description(info: dict[str, Any], scale: str) -> str:
    """Return the text on the page of a run: which data it used, what identifies them, and how to repeat it."""
    spec, sets, kind = info["spec"], info["sets"], info["sets"]["kind"]
    target = f"results/{spec['scale']}/{spec['experiment']}/runs/{spec['variant']}/seed{spec['seed']}/run.json"
    config = " --configfile workflow/reference.yaml" if scale == REFERENCE else ""
    about = f"{DATA[kind]}: {sets['data']}."
    # MLflow shows some lines at once and the others on request; two spaces at their end keep them apart.
    return (
        f"**{about[0].upper()}{about[1:]}**{f' {WARNINGS[kind]}'.rstrip()}  \n"
        f"Repeat: `snakemake --cores all{config} --force -- {target}`  \n"
        f"Sets, SHA-256: `{sets['digest']}`  \n"
        f"Prepared data ({sets['dataset']}, source {sets['source']}), SHA-256: `{sets['store_digest']}`  \n"
        f"Code: commit `{info['git_commit'] or 'unknown'}`\n"
    )
