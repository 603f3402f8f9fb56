"""The typed config: what `config.yaml` may say, and the one resolved spec of every job.

`config.yaml` holds the paper's own values. A scale is a set of changes to them (`scales.demo`). What the user says is
laid over both: every value of `--config`, and of a `--configfile` the values that differ from `config.yaml`, so that a
copy of it in full changes nothing. The result is validated as a whole; the first thing a user hears of a wrong key or
value is the key's full name.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import Field, create_model

from equiset.config.experiment import Experiment
from equiset.config.settings import Settings, validate
from equiset.data import DATASETS, dataset_module
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.experiments.laws.settings import Laws
from equiset.files import read_yaml

Scale = Literal["smoke", "demo", "paper"]
SCALES: tuple[str, ...] = get_args(Scale)


class Tracking(Settings):
    """Where MLflow keeps its view of the runs."""

    uri: str | None = None
    """Tracking server or database. Empty: the environment's MLFLOW_TRACKING_URI, else `results/mlflow.db`."""
    live: bool = True
    """Whether a process beside the workflow shows trainings while they run. Without it they come when all are done."""

    def address(self) -> str:
        return self.uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///results/mlflow.db"


def _by_name(registry: dict[str, str], settings_of: Any, title: str) -> type[Settings]:
    return create_model(title, __base__=Settings, **{name: (settings_of(name), ...) for name in registry})


# One field for each registered data set and experiment, so that adding one changes the registry alone.
_Datasets = _by_name(DATASETS, lambda name: dataset_module(name).SETTINGS, "Datasets")
_Experiments = _by_name(EXPERIMENTS, lambda name: experiment_module(name, "settings").ExperimentSettings, "Experiments")


class Config(Settings):
    """Everything that `config.yaml` decides, at one scale."""

    scale: Scale = "demo"
    """How large everything is: `smoke` (seconds), `demo` (minutes), `paper` (the paper's own sizes)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks are trained. `auto` takes a GPU if this machine has one; for a cluster's say `cuda`."""
    jobs_per_card: int = Field(1, ge=1, le=100)
    """Jobs that may use a GPU of this machine at once. A scheduler of a cluster decides for itself."""
    processes: int = Field(1, ge=1, le=1024)
    """Processes (with `device: cuda`, GPUs) that train one network together. It changes the time and the rounding."""
    data_folder: str = Field("data", min_length=1)
    """Where downloads are kept. They are shared by all scales."""
    tracking: Tracking = Tracking()
    datasets: _Datasets  # type: ignore[valid-type]
    experiments: _Experiments  # type: ignore[valid-type]
    laws: Laws

    def dataset(self, name: str) -> Settings:
        return getattr(self.datasets, name)

    def experiment(self, name: str) -> Experiment:
        return getattr(self.experiments, name)


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with `change` laid over it; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a config file."""
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise EquisetError(f"{path}: expected keys with values, got {content!r:.80}")
    return content


def user_changes(base: Path, files: Iterable[Path], said: dict[str, Any]) -> dict[str, Any]:
    """Return what the user wants to be different: where the files of `--configfile` differ from the project's config
    (of several the last one wins), and all that was said by `--config`, which wins over them.
    """
    content, changes = read_config(base), {}
    for file in files:
        changes = merge(changes, _differences(read_config(file), content))
    return merge(changes, {key: _as_in_a_file(value) for key, value in said.items()})


def _as_in_a_file(value: Any) -> Any:
    """Return what a file would say. Within `--config 'key={...}'`, Snakemake takes numbers and truths for text."""
    if isinstance(value, dict):
        return {key: _as_in_a_file(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_in_a_file(item) for item in value]
    if isinstance(value, str):
        with suppress(yaml.YAMLError):
            read = yaml.safe_load(value)
            return read if read is None or isinstance(read, bool | int | float) else value
    return value


def _differences(values: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    different = {}
    for key, value in values.items():
        if key not in base or value != base[key]:
            both = isinstance(value, dict) and isinstance(base.get(key), dict)
            different[key] = _differences(value, base[key]) if both else value
    return different


def resolve(raw: dict[str, Any], scale: str | None = None, overrides: dict[str, Any] | None = None) -> Config:
    """Return the validated config at a scale, by default the one that the content of `config.yaml` names.

    What the user wants to be different (`user_changes`) wins over the scale.
    """
    overrides = overrides or {}
    raw = merge(raw, overrides)
    changes = raw.pop("scales", None) or {}
    scale = scale or overrides.get("scale") or raw.get("scale", "demo")
    if scale not in SCALES:
        raise EquisetError(f"config key 'scale': {scale!r} is not one of {', '.join(SCALES)}")
    if not isinstance(changes, dict) or set(changes) - set(SCALES):
        raise EquisetError(f"config key 'scales': expected the keys {', '.join(SCALES)}, got {changes!r:.80}")
    for name, change in changes.items():
        if not isinstance(change or {}, dict):
            raise EquisetError(f"config key 'scales.{name}': expected keys with values, got {change!r:.80}")
    overrides = {key: value for key, value in overrides.items() if key != "scales"}
    merged = merge(merge(merge(raw, changes.get(scale) or {}), overrides), {"scale": scale})
    return validate(Config, _lay_defaults_under_variants(merged))


def _lay_defaults_under_variants(raw: dict[str, Any]) -> dict[str, Any]:
    """Complete every variant with its experiment's `defaults`, which then have served their purpose."""
    if not isinstance(raw.get("experiments"), dict):
        return raw  # for the validation to name
    experiments = {}
    for name, experiment in raw["experiments"].items():
        if isinstance(experiment, dict):
            experiment = dict(experiment)
            defaults = experiment.pop("defaults", None) or {}
            variants = experiment.get("variants", {})
            if not isinstance(defaults, dict):
                where = f"experiments.{name}.defaults"
                raise EquisetError(f"config key '{where}': expected keys with values, got {defaults!r:.80}")
            if isinstance(variants, dict):
                experiment["variants"] = {
                    key: merge(defaults, change or {}) if isinstance(change or {}, dict) else change
                    for key, change in variants.items()
                }
        experiments[name] = experiment
    return {**raw, "experiments": experiments}


def schema() -> dict[str, Any]:
    """Return the JSON schema of `config.yaml`, for editors and for readers.

    Nothing is required in it: a variant is completed by its defaults, and a scale is a partial config.
    """

    def optional(node: Any) -> Any:
        if isinstance(node, list):
            return [optional(item) for item in node]
        if isinstance(node, dict):
            return {key: optional(value) for key, value in node.items() if key != "required"}
        return node

    described = optional(Config.model_json_schema())
    body = {key: described[key] for key in ("additionalProperties", "properties", "type")}
    for name in EXPERIMENTS:
        # Found by reference: two classes of one name get longer names in the schema.
        reference = described["$defs"]["Experiments"]["properties"][name]["$ref"]
        experiment = described["$defs"][reference.removeprefix("#/$defs/")]
        experiment["properties"]["defaults"] = {
            **next(iter(experiment["properties"]["variants"]["patternProperties"].values())),
            "description": "What every variant has unless it says otherwise.",
        }
    described["$defs"]["PartialConfig"] = body
    described["properties"] = {
        **body["properties"],
        "scales": {
            "type": "object",
            "additionalProperties": False,
            "description": "For each scale, what it changes.",
            "properties": {name: {"$ref": "#/$defs/PartialConfig"} for name in SCALES},
        },
    }
    return described


# The specs: one JSON-able dict per job, with all that decides the job's result and nothing else.


def fetch_spec(config: Config, dataset: str) -> dict[str, Any]:
    """Return all that is said of a data set, also how its files are brought here."""
    return {"dataset": dataset, "settings": config.dataset(dataset).model_dump(mode="json")}


def manifest_spec(config: Config, dataset: str) -> dict[str, Any]:
    """Return what decides which raw files there will be."""
    settings = config.dataset(dataset)
    unused = {"folder", "stand_in"} - {settings.source.replace("-", "_")}
    dumped = settings.model_dump(mode="json", exclude={*settings.bringing, *settings.preparing, *unused})
    return {"dataset": dataset, "settings": dumped}


def prepare_spec(config: Config, dataset: str) -> dict[str, Any]:
    """Return what decides the arrays that are made of given raw files."""
    settings = config.dataset(dataset)
    return {
        "dataset": dataset,
        "settings": settings.model_dump(mode="json", exclude={*settings.bringing, *settings.choosing}),
    }


def sets_spec(config: Config, experiment: str, sets: str, seed: int) -> dict[str, Any]:
    settings = config.experiment(experiment).sets[sets]
    return {"experiment": experiment, "sets": sets, "seed": seed, "settings": settings.model_dump(mode="json")}


def analysis_spec(config: Config, experiment: str, analysis: str) -> dict[str, Any]:
    """Return what the experiment's settings say under the analysis's name; nothing if there is no such field."""
    settings = getattr(config.experiment(experiment), analysis, None)
    return settings.model_dump(mode="json") if settings is not None else {}


def run_spec(config: Config, experiment: str, variant: str, seed: int) -> dict[str, Any]:
    settings = config.experiment(experiment).variants[variant]
    return {
        "experiment": experiment,
        "variant": variant,
        "seed": seed,
        "scale": config.scale,
        "device": config.device,
        # What a variant is in tables changes no training.
        "settings": settings.model_dump(mode="json", exclude={"role"}),
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
